/* calendar_match.c: whether a calendar includes a time. Allocates nothing; no locks. */
#include "schedule/calendar.h"

static bool rule_matches(const struct jsi_calendar_rule *rule, int64_t days, int64_t second)
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
        bool wraps = rule->last < rule->first; /* "22:00..06:00" */
        return wraps ? second >= rule->first || second < rule->last
                     : second >= rule->first && second < rule->last;
    }
    case JSI_RULE_CRON:
        break;
    }
    /* Excluded while any second of the minute matches. */
    int64_t minute = days * JSI_DAY_S + second - second % 60;
    return jsi_cron_local_next(&rule->cron, minute) < minute + 60;
}

bool jsi_calendar_includes_local(const struct jobsched_calendar *calendar, int64_t local,
                                 bool *out_whole_day)
{
    int64_t days = jsi_floor_div(local, JSI_DAY_S);
    int64_t second = local - days * JSI_DAY_S;
    bool whole_day = true;
    bool included = true;
    /* Later rules win, so the last one that matches decides. */
    for (size_t i = calendar->count; i-- > 0;) {
        const struct jsi_calendar_rule *rule = &calendar->rules[i];
        if (rule->kind == JSI_RULE_TIMES || rule->kind == JSI_RULE_CRON) {
            whole_day = false;
        }
        if (rule_matches(rule, days, second)) {
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
    return jsi_calendar_includes_local(calendar,
                                       at + zone->segments[jsi_zone_find(zone, at)].offset, NULL);
}
