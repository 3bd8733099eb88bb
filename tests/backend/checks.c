/* checks.c: see checks.h. */
#include "checks.h"

#include <stdio.h>

static int keep(const jobsched_check_record *record, void *data)
{
    struct checks *checks = data;
    size_t used = strlen(checks->text);
    checks->count++;
    checks->level = record->level > checks->level ? record->level : checks->level;
    (void)snprintf(checks->text + used, sizeof checks->text - used, "%d %s: %s\n", record->level,
                   record->id, record->message);
    return 0;
}

void checks_read(struct cf_node *node, struct checks *out_checks)
{
    jobsched_call call = cf_call(JOBSCHED_LANE_ADMIN);
    memset(out_checks, 0, sizeof *out_checks);
    cf_ok(node->driver->check(node->backend, &call, keep, out_checks));
}

static int begins(const struct checks *checks, const char *text)
{
    const char *at = checks->text;
    while (at != NULL && *at != '\0' && strncmp(at, text, strlen(text)) != 0) {
        at = strchr(at, '\n');
        at = at == NULL ? NULL : at + 1;
    }
    return at != NULL && *at != '\0';
}

void checks_expect(const struct checks *checks, const char *text)
{
    if (!begins(checks, text)) {
        fail_msg("no finding begins with '%s':\n%s", text, checks->text);
    }
}

void checks_await(struct cf_node *node, struct checks *out_checks, const char *text)
{
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    checks_read(node, out_checks);
    while (!begins(out_checks, text) && cf_real_mono_ms() < deadline_ms) {
        cf_pause();
        checks_read(node, out_checks);
    }
    checks_expect(out_checks, text);
}

void checks_contain(const struct checks *checks, const char *text)
{
    if (strstr(checks->text, text) == NULL) {
        fail_msg("'%s' is not in:\n%s", text, checks->text);
    }
}
