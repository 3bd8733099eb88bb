/* test_pair.c: two schedulers on one store, on every cluster backend: cancellation and definitions
 * across nodes (G6, G14), and leader mode (G10). Real threads, the public API. */
#include "pair.h"

#include <time.h>
#include <unistd.h>

/* G6: what one node is told to cancel stops on another, by that one's next heartbeat, with the
 * reason; the answer names that node. And a desk that is no node can do the same. */
static void test_cancel_reaches_another_node(void **state)
{
    (void)state;
    struct party there, here;
    open_party(&there, "there", 0);
    add_job(&there, "job", "@at 2100-01-01T00:00:00Z", pair_hold, 0);
    cf_ok(jobsched_start(there.s));
    wait_for_job(&there, "job");
    open_party(&here, "here", 0);
    cf_ok(jobsched_trigger(here.s, "job", "re", NULL)); /* and so does a trigger */
    wait_until(atomic_load(&there.inside) == 1);
    jobsched_control_result result;
    JOBSCHED_INIT(&result);
    cf_ok(jobsched_cancel(here.s, "job", &result));
    cf_equal(result.changed, 1);
    cf_equal(result.running, 1);
    assert_string_equal(result.node, "there");
    wait_until(atomic_load(&there.stop_reason) == JOBSCHED_STOP_CANCELLED);
    int outcome = -1;
    cf_ok(jobsched_wait(here.s, "job", "re", WAIT_MS, keep_outcome, &outcome));
    cf_equal(outcome, JOBSCHED_OUTCOME_CANCELLED);
    close_party(&here);
    close_party(&there);
}

static int64_t real_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* G14: two builds of the same version: the later holds, both sides hear of it once, and the
 * cluster follows one of them. A larger version then ends it. */
static void test_definitions_of_two_nodes(void **state)
{
    (void)state;
    struct party first, second;
    open_party(&first, "first", 0);
    open_party(&second, "second", 0);
    add_job(&first, "tick", "* * * * * *", pair_tick, 4);
    cf_ok(jobsched_start(first.s));
    wait_until(atomic_load(&first.fired) > 0);
    add_job(&second, "tick", "*/1 * * * * *", pair_tick, 4);
    cf_ok(jobsched_start(second.s));
    wait_until(atomic_load(&second.conflicts) == 1);
    wait_until(atomic_load(&first.conflicts) == 1 && atomic_load(&first.stood_down) == 1);
    /* What was granted before may begin only now. But nothing that came due since is this one's. */
    int64_t stood_down_ms = real_ms();
    uint64_t others = atomic_load(&second.fired);
    wait_until(atomic_load(&second.fired) > others + 1);
    cf_true(atomic_load(&first.latest_ms) <= stood_down_ms);
    cf_equal(atomic_load(&second.conflicts), 1);
    cf_ok(jobsched_withdraw(first.s, "tick"));
    add_job(&first, "tick", "* * * * * *", pair_tick, 5);
    wait_until(atomic_load(&second.stood_down) == 1);
    wait_until(atomic_load(&first.latest_ms) > stood_down_ms);
    cf_equal(atomic_load(&second.conflicts), 1);
    close_party(&second);
    close_party(&first);
}

/* The first is asked twice: leadership may pass on between two questions. */
static int both_lead(const struct party *parties)
{
    return jobsched_is_leader(parties[0].s) && jobsched_is_leader(parties[1].s) &&
           jobsched_is_leader(parties[0].s);
}

/* Asks the leader to let the other one lead, once each time that it leads: if that one takes long, it
 * leads again itself. */
static void hand_over(const struct party *leader, const struct party *other, int *gained)
{
    int now = atomic_load(&leader->gained);
    if (now > *gained) {
        *gained = now;
        cf_ok(jobsched_cancel(other->s, "jobsched:leader", NULL));
    }
}

struct instants {
    int64_t at_ms[256];
    int count;
};

static int note_instant(const jobsched_run_record *record, void *user_data)
{
    struct instants *seen = user_data;
    for (int i = 0; i < seen->count; i++) {
        cf_true(seen->at_ms[i] != record->scheduled_at_ms);
    }
    if (seen->count < 256) {
        seen->at_ms[seen->count++] = record->scheduled_at_ms;
    }
    return 0;
}

static void expect_each_once(jobsched *s)
{
    static struct instants seen;
    seen.count = 0;
    cf_ok(jobsched_runs(s, "tick", 256, note_instant, &seen));
    cf_true(seen.count > 0);
}

/* G10: one of two leads and fires; a clean stop hands over; and what nobody may do, both of them
 * leading, is never seen. */
static void test_two_nodes_in_leader_mode(void **state)
{
    (void)state;
    struct party parties[2];
    for (int i = 0; i < 2; i++) {
        open_party(&parties[i], i == 0 ? "a" : "b", 1);
        add_job(&parties[i], "tick", "* * * * * *", pair_tick, 0);
        cf_ok(jobsched_start(parties[i].s));
    }
    int both = 0;
    wait_until(jobsched_is_leader(parties[0].s) || jobsched_is_leader(parties[1].s));
    int leader = jobsched_is_leader(parties[0].s) ? 0 : 1;
    wait_until((both += both_lead(parties), atomic_load(&parties[leader].fired) >= 2));
    cf_equal(atomic_load(&parties[1 - leader].fired), 0);
    cf_equal(both, 0);
    int gained = 0;
    wait_until((both += both_lead(parties),
                hand_over(&parties[leader], &parties[1 - leader], &gained),
                jobsched_is_leader(parties[1 - leader].s)));
    wait_until(atomic_load(&parties[leader].lost) >= 1); /* events come on their own thread */
    wait_until(atomic_load(&parties[1 - leader].fired) > 0);
    close_party(&parties[1 - leader]);
    wait_until(jobsched_is_leader(parties[leader].s));
    cf_equal(both, 0);
    wait_until(atomic_load(&parties[leader].gained) >= 2);
    uint64_t fired = atomic_load(&parties[leader].fired);
    wait_until(atomic_load(&parties[leader].fired) > fired);
    expect_each_once(parties[leader].s);
    close_party(&parties[leader]);
}

/* G10: a leader that is killed is followed, and nobody else leads or fires before. */
static void test_dead_leader_is_followed(void **state)
{
    (void)state;
    int ends[2];
    char sign = 0;
    pair_lease_ms = 12000; /* which is waited for, where there is no proof of death */
    cf_equal(pipe(ends), 0);
    pid_t child = pair_fork();
    if (child == 0) {
        struct party doomed;
        open_party(&doomed, "doomed", 1);
        cf_ok(jobsched_start(doomed.s));
        wait_until(jobsched_is_leader(doomed.s));
        cf_equal(write(ends[1], &sign, 1), 1);
        for (;;) {
            (void)pause();
        }
    }
    (void)close(ends[1]);
    cf_equal(read(ends[0], &sign, 1), 1);
    (void)close(ends[0]);
    struct party heir;
    open_party(&heir, "heir", 1);
    add_job(&heir, "tick", "* * * * * *", pair_tick, 0);
    cf_ok(jobsched_start(heir.s));
    int64_t until_ms = cf_real_mono_ms() + 1200;
    while (cf_real_mono_ms() < until_ms) {
        cf_equal(jobsched_is_leader(heir.s), 0);
        cf_pause();
    }
    cf_equal(atomic_load(&heir.fired), 0);
    pair_kill(child);
    wait_until(atomic_load(&heir.fired) > 0);
    wait_until(atomic_load(&heir.gained) == 1);
    close_party(&heir);
}

static int run(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, pair_set_up, pair_tear_down)
    const struct CMUnitTest tests[] = {
        /* First: it forks, and no threads may be there. */
        TEST(test_dead_leader_is_followed),
        TEST(test_cancel_reaches_another_node),
        TEST(test_definitions_of_two_nodes),
        TEST(test_two_nodes_in_leader_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return pair_main(argc, argv, run);
}
