/* test_cluster_link.c: what can happen between a node and its server, by a proxy of our own on TCP:
 * G1, G5, G8, G9. What the library tells of each is in the table of docs/backends.md, section
 * "Faults". Two nodes; the first one's way is troubled, the other one's is not. */
#include "trouble.h"

#include "support/proxy.h"

#include <signal.h>
#include <stdlib.h>

/* LEASE_MS: a machine that stalls for some seconds loses none. */
enum { LEASE_MS = 12000, SHORT = 6 };

static const check_job jobs[] = {
    {"long", "* * * * * *", 1000, 0, 600000, "alive", NULL},
    {"short-0", "* * * * * *", 1000, 0, 1, NULL, NULL},
    {"short-1", "@every 1s", 1000, 0, 1, NULL, NULL},
    {"short-2", "* * * * * *", 1000, 0, 1, NULL, NULL},
    {"short-3", "@every 1s", 1000, 0, 1, NULL, NULL},
    {"marked", "*/4 * * * * *", 4000, 0, 1, NULL, NULL},
};
/* Nothing is under way for a while once it is granted to the first node. */
static const check_job quiet = {"marked", "*/10 * * * * *", 10000, 0, 5000, "first", NULL};

typedef struct pair {
    fleet *f;
    proxy *links[2];
    fleet_node *nodes[2];
    int64_t ready_ms;
    bool patient; /* nothing may be told, however busy the machine is */
} pair;

enum { PATIENT_LEASE_MS = 18000 };

static int setup(void **state)
{
    pair *p = calloc(1, sizeof *p);
    void *made = NULL;
    if (p == NULL || fleet_setup(&made) != 0) {
        return -1;
    }
    p->f = made;
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    pair *p = *state;
    void *made = p->f;
    for (int i = 0; i < 2; i++) {
        proxy_stop(p->links[i]); /* none waits in a hole for its end */
    }
    int result = fleet_teardown(&made);
    free(p);
    return result;
}

/* more: for the URL, in Postgres. */
static void start(pair *p, int i, const char *more)
{
    char url[320];
    fleet *f = p->f;
    p->links[i] = proxy_start(NULL, f->server.socket);
    assert_non_null(p->links[i]);
    server_url_of_port(&f->server, proxy_port(p->links[i]), url, sizeof url);
    if (f->server.kind == SERVER_POSTGRESQL) {
        size_t used = strlen(url);
        (void)snprintf(url + used, sizeof url - used, "%s", more);
    }
    f->url = url;
    p->nodes[i] = fleet_start(f, i == 0 ? 90000 : -90000);
    f->url = NULL;
}

/* The first node has the long run, if there is one, before the other one comes. */
static void begin(pair *p, const check_job *first_job, size_t count, const char *more)
{
    fleet *f = p->f;
    fleet_jobs(f, first_job, count);
    f->settings[0] = p->patient ? "lease=18s" : "lease=12s";
    f->settings[1] = p->patient ? "request_timeout=6s" : NULL;
    start(p, 0, more);
    p->ready_ms = fleet_now_ms();
    if (first_job == jobs) {
        fleet_pattern begins = {.what = RECORD_START, .node = -1, .job = "long"};
        (void)fleet_wait_record(f, "the long run begins", FLEET_SOON_MS, &begins);
    }
    start(p, 1, more);
    fleet_wait_accounted(f, fleet_now_ms());
}

static void judge(pair *p, check_report *out_report)
{
    int64_t until_ms = fleet_now_ms() + 2000;
    fleet_wait_accounted(p->f, until_ms);
    fleet_drain_all(p->f);
    fleet_check_clean(p->f, p->ready_ms, until_ms, out_report);
}

static size_t failures(pair *p, int node, int64_t since_ms)
{
    fleet_pattern failed = {.what = RECORD_EVENT,
                            .event = FLEET_ANY_FAILURE,
                            .node = node,
                            .after_us = since_ms * 1000};
    return fleet_count(p->f, &failed);
}

/* ---- a connection is cut around a claim ------------------------------------------- */

/* So that a node has time to come back on a busy machine. */
static const char long_grace[] = "&jobsched_grace=15s";

static bool is_caught(fleet *f, void *data)
{
    (void)f;
    return proxy_caught(((pair *)data)->links[0]) > 0;
}

static bool is_answered(fleet *f, void *data)
{
    (void)f;
    return proxy_answered(((pair *)data)->links[0]) > 0;
}

/* SIGSTOP to the second node when it holds nothing that others would have to wait for. */
static void stop_idle(pair *p)
{
    bool busy = true;
    for (int64_t until_ms = fleet_mono_ms() + FLEET_SOON_MS; busy;) {
        assert_true(fleet_mono_ms() < until_ms);
        fleet_wait_until((fleet_now_ms() / 1000 + 1) * 1000 + 500);
        fleet_stop(p->nodes[1]);
        size_t count;
        check_row *rows = fleet_ledger(p->f, &count);
        busy = false;
        for (size_t i = 0; i < count; i++) {
            busy = busy ||
                   (rows[i].outcome == JOBSCHED_OUTCOME_RUNNING && strcmp(rows[i].node, "n1") == 0);
        }
        free(rows);
        if (busy) {
            fleet_signal(p->nodes[1], SIGCONT);
        }
    }
}

/* The connection of the first node ends in the midst of the claim of one instant, in which all its
 * jobs are due. The other one stands still until then, and takes part when it is known who asked
 * first. Returns the start of the marked job. */
static record cut_one(pair *p, const check_job *marked, int fault, int64_t *out_due_ms)
{
    fleet *f = p->f;
    char digits[24];
    record found = {.what = 0};
    stop_idle(p);
    int64_t due_ms = check_next(marked, fleet_now_ms() + 5000);
    (void)snprintf(digits, sizeof digits, "%lld", (long long)due_ms);
    proxy_trap(p->links[0], digits, fault);
    fleet_wait_until(due_ms);
    fleet_wait(f, "the claim is caught", FLEET_SOON_MS, is_caught, p);
    if (fault == PROXY_CUT_BEFORE_REPLY || fault == PROXY_CUT_AFTER_REPLY) {
        fleet_wait(f, "the claim is answered", FLEET_SOON_MS, is_answered, p);
    }
    fleet_signal(p->nodes[1], SIGCONT);
    fleet_wait_accounted(f, due_ms);
    size_t starts = 0;
    for (size_t i = 0; i < f->record_count; i++) {
        const record *entry = &f->records[i];
        if (entry->what == RECORD_START && strcmp(entry->job, "marked") == 0 &&
            entry->scheduled_ms == due_ms) {
            found = *entry;
            starts++;
        }
    }
    assert_int_equal(starts, 1);
    *out_due_ms = due_ms;
    return found;
}

/* out_start: of the marked job. */
static void cut_around_claim(pair *p, int fault, record *out_start)
{
    fleet *f = p->f;
    int64_t due_ms;
    bool is_quiet = fault == PROXY_CUT_AFTER_REPLY;
    p->patient = true;
    begin(p, is_quiet ? &quiet : jobs + 1, is_quiet ? 1 : SHORT - 1, long_grace);
    int64_t since_ms = fleet_now_ms();
    *out_start = cut_one(p, is_quiet ? &quiet : &jobs[SHORT - 1], fault, &due_ms);
    assert_int_equal(proxy_caught(p->links[0]), 1);
    printf("n%d ran it, %lld ms late\n", (int)out_start->node,
           (long long)(out_start->at_us / 1000 - due_ms));
    assert_true(out_start->at_us / 1000 - due_ms < LEASE_MS); /* nobody has waited for a lease */
    fleet_pattern failed = {
        .what = RECORD_EVENT, .event = FLEET_ANY_FAILURE, .node = 0, .after_us = since_ms * 1000};
    if (fault != PROXY_CUT_AFTER_REPLY) {
        /* It was sent, so nobody knows: never won, never lost, but asked again. */
        record event = fleet_wait_record(f, "the node tells", FLEET_SOON_MS, &failed);
        printf("%s\n", event.text);
        assert_int_equal(event.code, JOBSCHED_EUNKNOWN);
        fleet_pattern back = {
            .what = RECORD_EVENT, .event = JOBSCHED_EVENT_BACKEND_RECOVERED, .node = 0};
        back.after_us = event.at_us;
        (void)fleet_wait_record(f, "the node tells that it is over", FLEET_SOON_MS, &back);
    }
    check_report report;
    judge(p, &report);
    check_row row = fleet_row(f, "marked", due_ms);
    assert_int_equal(row.outcome, JOBSCHED_OUTCOME_SUCCEEDED);
    assert_int_equal(row.attempt, 1);
    assert_int_equal(row.token, out_start->token);
    assert_int_equal(report.outcomes[JOBSCHED_OUTCOME_INTERRUPTED], 0);
    assert_int_equal(report.outcomes[JOBSCHED_OUTCOME_SKIPPED_MISFIRE], 0);
    if (fault == PROXY_CUT_AFTER_REPLY) {
        /* The next request, which reports the run, has made a new connection. */
        assert_int_equal(failures(p, 0, since_ms), 0);
    }
}

static void test_cut_before_the_claim(void **state)
{
    record start;
    cut_around_claim(*state, PROXY_CUT_BEFORE_REQUEST, &start);
}

static void test_cut_during_the_claim(void **state)
{
    record start;
    cut_around_claim(*state, PROXY_CUT_AFTER_REQUEST, &start);
}

/* The server has granted: the same grant is told again, and nobody else gets it. */
static void test_cut_before_the_reply(void **state)
{
    record start;
    cut_around_claim(*state, PROXY_CUT_BEFORE_REPLY, &start);
    assert_int_equal(start.node, 0);
}

static void test_cut_after_the_reply(void **state)
{
    record start;
    cut_around_claim(*state, PROXY_CUT_AFTER_REPLY, &start);
    assert_int_equal(start.node, 0);
}

/* ---- the network swallows ----------------------------------------------------------- */

/* G5: the owner's network is a black hole, for longer than its lease. It is told before the other
 * one begins, which is not before the lease that it was promised is over (the judge looks at what
 * it was told, by its own instants); and comes back. */
static void test_black_hole_around_the_owner(void **state)
{
    pair *p = *state;
    fleet *f = p->f;
    begin(p, jobs, SHORT, "");
    int64_t since_ms = fleet_now_ms();
    proxy_set(p->links[0], PROXY_HOLE);
    fleet_pattern begins = {
        .what = RECORD_START, .node = 1, .job = "long", .after_us = since_ms * 1000};
    record second = fleet_wait_record(f, "the other one takes over", FLEET_SOON_MS, &begins);
    fleet_pattern sees = {
        .what = RECORD_STOP_SEEN, .node = 0, .job = "long", .after_us = since_ms * 1000};
    record told = fleet_wait_record(f, "the owner is told", FLEET_SOON_MS, &sees);
    assert_int_equal(told.stop_reason, JOBSCHED_STOP_LEASE_LOST);
    printf("told %lld ms, taken over %lld ms after the hole began\n",
           (long long)(told.at_us / 1000 - since_ms), (long long)(second.at_us / 1000 - since_ms));
    fleet_pattern failed = {
        .what = RECORD_EVENT, .event = FLEET_ANY_FAILURE, .node = 0, .after_us = since_ms * 1000};
    record event = fleet_wait_record(f, "the owner tells", FLEET_SOON_MS, &failed);
    printf("%s: %s\n", jobsched_code_name(event.code), event.text);
    assert_true(event.code == JOBSCHED_EUNKNOWN || event.code == JOBSCHED_EUNREACHABLE);
    int64_t open_ms = fleet_now_ms();
    proxy_set(p->links[0], PROXY_OPEN);
    fleet_pattern again = {.what = RECORD_START, .node = 0, .after_us = open_ms * 1000};
    (void)fleet_wait_record(f, "the old owner takes part again", FLEET_SOON_MS, &again);
    check_report report;
    judge(p, &report);
    assert_true(report.lease_lost_seen >= 1);
}

/* Beyond the lease, so that it was renewed since then. codes: what may be told meanwhile, ended
 * by 0. */
static void expect_run_goes_on(pair *p, int64_t since_ms, const int *codes)
{
    fleet *f = p->f;
    fleet_wait_until(since_ms + (p->patient ? PATIENT_LEASE_MS : LEASE_MS) + 3000);
    fleet_wait_accounted(f, fleet_now_ms() - 500);
    fleet_pattern begins = {.what = RECORD_START, .node = -1, .job = "long"};
    assert_int_equal(fleet_count(f, &begins), 1);
    fleet_pattern sees = {
        .what = RECORD_STOP_SEEN, .node = 0, .job = "long", .after_us = since_ms * 1000};
    assert_int_equal(fleet_count(f, &sees), 0);
    printf("%zu failures were told\n", trouble_codes(f, since_ms, codes));
    check_report report;
    judge(p, &report);
    assert_int_equal(report.outcomes[JOBSCHED_OUTCOME_INTERRUPTED], 0);
    assert_int_equal(report.outcomes[JOBSCHED_OUTCOME_LEASE_LOST], 0);
}

/* A machine that is busy may be too slow for a new connection. */
static const int nothing[] = {0}, unknown[] = {JOBSCHED_EUNKNOWN, JOBSCHED_EUNREACHABLE, 0};

/* Half-open: the server has forgotten the connections, and the owner is not told. It finds out by
 * the time that a request may take, and its run goes on. (In Postgres the grace has to be as long as
 * that, see docs/backends.md.) */
static void test_half_open_towards_the_server(void **state)
{
    pair *p = *state;
    begin(p, jobs, SHORT, "&jobsched_grace=12s");
    int64_t since_ms = fleet_now_ms();
    proxy_forget_server(p->links[0]);
    expect_run_goes_on(p, since_ms, unknown);
}

/* The other way round: the server goes on with connections that nobody has any more. */
static void test_half_open_towards_the_node(void **state)
{
    pair *p = *state;
    begin(p, jobs, SHORT, "");
    int64_t since_ms = fleet_now_ms();
    proxy_forget_client(p->links[0]);
    expect_run_goes_on(p, since_ms, unknown);
}

/* Every piece takes 40 ms each way: slow, and nothing else. */
static void test_slow_link_is_only_slow(void **state)
{
    pair *p = *state;
    p->patient = true;
    begin(p, jobs, SHORT, "");
    int64_t since_ms = fleet_now_ms();
    proxy_delay(p->links[0], 40);
    proxy_delay(p->links[1], 40);
    expect_run_goes_on(p, since_ms, nothing);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(test_cut_before_the_claim),        TEST(test_cut_during_the_claim),
        TEST(test_cut_before_the_reply),        TEST(test_cut_after_the_reply),
        TEST(test_black_hole_around_the_owner), TEST(test_half_open_towards_the_server),
        TEST(test_half_open_towards_the_node),  TEST(test_slow_link_is_only_slow),
    };
    return fleet_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
