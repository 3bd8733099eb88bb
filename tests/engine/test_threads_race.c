/* Many threads on one scheduler at once (G1, G2, G4; for ThreadSanitizer above all): jobs come and go,
 * are triggered, paused, cancelled and asked about, while the scheduler runs, stops and drains. No
 * grant runs twice, no job overlaps itself, and all user data is freed once. */
#include "support/fake_backend.h"
#include "support/live.h"
#include "support/test_memory.h"

#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 6, NAMES = 4, ROUNDS = 150, TOKENS_MAX = 20000 };

struct arena {
    jobsched *s;
    _Atomic int inside[NAMES];              /* runs of a name that are under way */
    _Atomic int granted[NAMES][TOKENS_MAX]; /* calls per token */
    _Atomic int overlaps, repeats, strange; /* must stay 0 */
    _Atomic int calls, made, freed;
};

struct racer {
    struct arena *arena;
    pthread_t thread;
    int number;
};

/* One registration's user data. */
struct holding {
    struct arena *arena;
    int name;
    _Atomic int freed;
};

static int body(jobsched_run *run, void *user_data)
{
    struct holding *holding = user_data;
    struct arena *arena = holding->arena;
    uint64_t token = jobsched_run_token(run);
    (void)atomic_fetch_add(&arena->calls, 1);
    if (atomic_fetch_add(&arena->inside[holding->name], 1) != 0) {
        (void)atomic_fetch_add(&arena->overlaps, 1);
    }
    if (token < TOKENS_MAX && atomic_fetch_add(&arena->granted[holding->name][token], 1) != 0) {
        (void)atomic_fetch_add(&arena->repeats, 1);
    }
    (void)jobsched_run_note(run, "racing");
    if (token % 4 == 0) {
        live_pause(); /* long enough for others to be due meanwhile */
    }
    (void)jobsched_run_progress(run, token, token);
    if (jobsched_run_lease_left_ms(run) < 0 || jobsched_run_scheduled_at_ms(run) <= 0) {
        (void)atomic_fetch_add(&arena->strange, 1);
    }
    (void)atomic_fetch_sub(&arena->inside[holding->name], 1);
    return (int)(token % 3) == 1 ? -1 : 0;
}

static void on_free(void *user_data)
{
    struct holding *holding = user_data;
    if (atomic_fetch_add(&holding->freed, 1) == 0) {
        (void)atomic_fetch_add(&holding->arena->freed, 1);
    } else {
        (void)atomic_fetch_add(&holding->arena->strange, 1);
    }
    free(holding);
}

static void name_of(int name, char *out_text, size_t bytes)
{
    (void)snprintf(out_text, bytes, "race-%d", name);
}

static void try_add(struct arena *arena, int name)
{
    char text[32];
    name_of(name, text, sizeof text);
    struct holding *holding = calloc(1, sizeof *holding);
    if (holding == NULL) {
        abort();
    }
    holding->arena = arena;
    holding->name = name;
    jobsched_job_spec spec;
    JOBSCHED_INIT(&spec);
    spec.name = text;
    spec.schedule = "* * * * * *";
    spec.run = body;
    spec.user_data = holding;
    spec.user_data_free = on_free;
    if (jobsched_add(arena->s, &spec, NULL) == 0) {
        (void)atomic_fetch_add(&arena->made, 1);
    } else {
        free(holding);
    }
}

static int visit(const jobsched_run_record *record, void *user_data)
{
    (void)record;
    (void)user_data;
    return 0;
}

static void *race(void *arg)
{
    struct racer *racer = arg;
    struct arena *arena = racer->arena;
    uint64_t dice = (uint64_t)racer->number * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (int round = 0; round < ROUNDS; round++) {
        char name[32];
        dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        int index = (int)(dice >> 40) % NAMES;
        name_of(index, name, sizeof name);
        jobsched_stats stats;
        JOBSCHED_INIT(&stats);
        int64_t next_ms;
        switch ((dice >> 33) % 10) {
        case 0:
        case 1:
            try_add(arena, index);
            break;
        case 2:
            (void)jobsched_withdraw(arena->s, name);
            break;
        case 3:
            (void)jobsched_pause(arena->s, name, NULL);
            (void)jobsched_resume(arena->s, name, NULL);
            break;
        case 4:
            (void)jobsched_cancel(arena->s, name, NULL);
            (void)jobsched_stats_read(arena->s, &stats);
            break;
        case 5:
            (void)jobsched_runs(arena->s, name, 5, visit, NULL);
            (void)jobsched_next_run(arena->s, name, &next_ms);
            (void)jobsched_wakeup(arena->s);
            break;
        default:
            (void)jobsched_trigger(arena->s, name, NULL, NULL);
            break;
        }
    }
    return NULL;
}

static void run_racers(struct arena *arena, void *(*body_of)(void *arg))
{
    struct racer racers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        racers[i] = (struct racer){.arena = arena, .number = i};
        assert_equal(pthread_create(&racers[i].thread, NULL, body_of, &racers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_equal(pthread_join(racers[i].thread, NULL), 0);
    }
}

static void check(struct arena *arena)
{
    assert_equal(arena->overlaps, 0);
    assert_equal(arena->repeats, 0);
    assert_equal(arena->strange, 0);
    assert_equal(arena->freed, arena->made);
}

static void test_everything_at_once(void **state)
{
    static struct arena arena;
    memset(&arena, 0, sizeof arena);
    struct test_memory memory;
    struct fake_backend fake;
    test_memory_init(&memory);
    fake_backend_init(&fake, NULL);
    jobsched_allocator allocator = test_memory_allocator(&memory);
    jobsched_options options;
    JOBSCHED_INIT(&options);
    options.lock = strcmp(*state, "fake:") == 0 ? fake.url : *state;
    options.backends = fake_backend_drivers();
    options.allocator = &allocator;
    assert_equal(jobsched_open(&options, &arena.s), 0);
    assert_equal(jobsched_start(arena.s), 0);
    if (options.lock == fake.url) {
        /* Replies get lost meanwhile. */
        fake_backend_fail(&fake, FAKE_CLAIM, JOBSCHED_EUNKNOWN, 2, true);
        fake_backend_fail(&fake, FAKE_FINISH, JOBSCHED_EUNKNOWN, 2, true);
    }
    run_racers(&arena, race);
    for (int i = 0; i < NAMES; i++) {
        try_add(&arena, i);
    }
    int calls = arena.calls;
    wait_for(arena.calls > calls);
    assert_equal(jobsched_drain(arena.s, LIVE_BOUND_MS), 0);
    assert_equal(jobsched_close(arena.s), 0);
    assert_equal(memory.live, 0);
    check(&arena);
    fake_backend_fini(&fake);
}

static void *start_and_stop(void *arg)
{
    struct racer *racer = arg;
    for (int i = 0; i < 20; i++) {
        (void)jobsched_start(racer->arena->s);
        (void)jobsched_trigger(racer->arena->s, "race-0", NULL, NULL);
        if (racer->number == 0 && i == 10) {
            (void)jobsched_stop(racer->arena->s);
        }
        if (racer->number == 1) {
            (void)jobsched_drain(racer->arena->s, 0);
        }
    }
    return NULL;
}

/* Starts, stops and drains from many threads: the first start wins, a stop is for good. */
static void test_start_and_stop_race(void **state)
{
    (void)state;
    for (int round = 0; round < 15; round++) {
        static struct arena arena;
        memset(&arena, 0, sizeof arena);
        assert_equal(jobsched_open(NULL, &arena.s), 0);
        try_add(&arena, 0);
        run_racers(&arena, start_and_stop);
        assert_equal(jobsched_start(arena.s), JOBSCHED_ESTATE);
        assert_equal(jobsched_drain(arena.s, LIVE_BOUND_MS), 0);
        assert_equal(jobsched_close(arena.s), 0);
        check(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "test_everything_at_once (fake:)",
         .test_func = test_everything_at_once,
         .initial_state = (void *)"fake:"},
        {.name = "test_everything_at_once (single:)",
         .test_func = test_everything_at_once,
         .initial_state = (void *)"single:"},
        cmocka_unit_test(test_start_and_stop_race),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
