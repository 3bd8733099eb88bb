/* calendar_match.c: whether a calendar includes a time. Allocates nothing; no locks. */
#include "schedule/calendar.h"

#define ALL_HOURS   UINT32_C(0xffffff)
#define ALL_MINUTES ((UINT64_C(1) << 60) - 1)

static bool cron_has_day(const struct jsi_cron *cron, int64_t days)
{
    if (days < JSI_LOCAL_MIN / JSI_DAY_S || days > JSI_LOCAL_MAX / JSI_DAY_S) {
        return false;
    }
    struct jsi_date date = jsi_civil_date(days);
    uint32_t mask = jsi_cron_month_mask(cron, jsi_civil_weekday(days - date.day + 1),
                                        jsi_civil_month_days(date.year, date.month));
    return jsi_cron_has_year(cron, date.year) && ((cron->months >> date.month) & 1) != 0 &&
           ((mask >> date.day) & 1) != 0;
}

/* Looks at the one day only: a search for the next match would walk months for each rule.
 * Seconds do not matter, since a rule holds while any second of the minute matches. Where the
 * answer is not that of the whole day, *whole_day becomes false. */
static bool cron_matches(const struct jsi_cron *cron, int64_t days, int64_t second, bool *whole_day)
{
    if (!cron_has_day(cron, days)) {
        return false;
    }
    if (cron->hours != ALL_HOURS || cron->minutes != ALL_MINUTES) {
        *whole_day = false;
    }
    return ((cron->hours >> (second / 3600)) & 1) != 0 &&
           ((cron->minutes >> (second / 60 % 60)) & 1) != 0;
}

static bool rule_matches(const struct jsi_calendar_rule *rule, int64_t days, int64_t second,
                         bool *whole_day)
{
    switch (rule->kind) {
    case JSI_RULE_ALL:
        return true;
    case JSI_RULE_DATES:
        return days >= rule->first && days <= rule->last;
    case JSI_RULE_YEAR_DAYS: {
        struct jsi_date date = jsi_civil_date(days);
        int64_t number = date.month * 100 + date.day;
        bool wraps = rule->last < rule->first; /* "12-24..01-06" */
        return wraps ? number >= rule->first || number <= rule->last
                     : number >= rule->first && number <= rule->last;
    }
    case JSI_RULE_WEEKDAYS:
        return ((rule->first >> jsi_civil_weekday(days)) & 1) != 0;
    case JSI_RULE_TIMES: {
        *whole_day = false;
        bool wraps = rule->last < rule->first; /* "22:00..06:00" */
        return wraps ? second >= rule->first || second < rule->last
                     : second >= rule->first && second < rule->last;
    }
    case JSI_RULE_CRON:
        break;
    }
    return cron_matches(&rule->cron, days, second, whole_day);
}

bool jsi_calendar_includes_local(const struct jobsched_calendar *calendar, int64_t local,
                                 bool *out_whole_day, int64_t *inout_budget)
{
    int64_t days = jsi_floor_div(local, JSI_DAY_S);
    int64_t second = local - days * JSI_DAY_S;
    bool whole_day = true;
    bool included = true;
    /* Later rules win, so the last one that matches decides. */
    for (size_t i = calendar->count; i-- > 0;) {
        const struct jsi_calendar_rule *rule = &calendar->rules[i];
        if (inout_budget != NULL) {
            (*inout_budget)--;
        }
        if (rule_matches(rule, days, second, &whole_day)) {
            included = rule->include;
            break;
        }
    }
    if (out_whole_day != NULL) {
        *out_whole_day = whole_day;
    }
    return included;
}

int jobsched_calendar_includes(const jobsched_calendar *calendar, int64_t at_ms)
{
    if (calendar == NULL) {
        return 1;
    }
    const struct jsi_zone *zone = calendar->zone != NULL ? calendar->zone : &jsi_zone_utc;
    int64_t at = jsi_floor_div(at_ms, 1000);
    return jsi_calendar_includes_local(
        calendar, at + zone->segments[jsi_zone_find(zone, at)].offset, NULL, NULL);
}
