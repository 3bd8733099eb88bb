/* test_postgres_told.c: G5 on a postgresql: store, where a session can end under a living owner: a
 * run is told before any other node is granted its job. The driver is used as the engine does: a
 * thread waits for the owner's descriptor, renews, and believes lost_at_mono_ms. Each round ends the
 * owner's session in one of these ways, and every second time the owner cannot come back:
 *   pg_terminate_backend; a link that is cut; a server that is restarted (which others may not
 *   take for the owner's death at all).
 *   test_postgres_told DIRECTORY [FILTER [ROUNDS]]     ROUNDS of each; 20 if not given. Starts a
 * server of its own. */
#include "postgres_support.h"

#include "support/proxy.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define GRACE_MS 500

static int rounds = 20;
static char server[64], folder[64];
static proxy *link_of_owner;

/* What the owner's engine knows. */
struct keeper {
    pthread_t thread, asker;
    struct cf_node *node;
    pthread_mutex_t lock;
    const char *job;
    uint64_t token;     /* 0: nothing runs */
    int stops;          /* guarded by lock, as all here */
    int64_t told_ms;    /* the run is stopped from then on; JOBSCHED_NONE: it goes on */
    int64_t heard_ms;   /* when that was known */
    int64_t vouched_ms; /* when somebody last asked vouch() and could go on */
    unsigned successes, failures, losses;
};

static void *engine(void *argument)
{
    struct keeper *k = argument;
    (void)pthread_mutex_lock(&k->lock);
    while (!k->stops) {
        jobsched_lease item = {.job = "job", .note = "", .token = k->token};
        size_t count = k->token > 0;
        (void)pthread_mutex_unlock(&k->lock);
        jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
        call.lost_at_mono_ms = JOBSCHED_NONE;
        int code = k->node->driver->renew(k->node->backend, &call, 0, &item, count);
        int64_t now_ms = cf_real_mono_ms();
        struct pollfd look = {.fd = k->node->driver->watch(k->node->backend), .events = POLLIN};
        (void)pthread_mutex_lock(&k->lock);
        int is_same = item.token == k->token;
        if (code == JOBSCHED_OK) {
            k->successes++;
            if (is_same && count > 0 && item.answer == JOBSCHED_LEASE_KEPT && k->told_ms > now_ms) {
                k->told_ms = JOBSCHED_NONE;
            } else if (is_same && count > 0 && item.answer == JOBSCHED_LEASE_GONE) {
                k->told_ms = k->told_ms < now_ms ? k->told_ms : now_ms;
            }
        } else {
            k->failures++;
            k->losses += call.lost_at_mono_ms != JOBSCHED_NONE;
            if (call.lost_at_mono_ms < k->told_ms) {
                k->told_ms = call.lost_at_mono_ms;
                k->heard_ms = now_ms;
            }
        }
        (void)pthread_mutex_unlock(&k->lock);
        (void)poll(&look, 1, code == JOBSCHED_OK ? 300 : 20);
        (void)pthread_mutex_lock(&k->lock);
    }
    (void)pthread_mutex_unlock(&k->lock);
    return NULL;
}

/* A run that asks all the time, and believes vouch() alone. */
static void *ask(void *argument)
{
    struct keeper *k = argument;
    int stops = 0;
    while (!stops) {
        (void)pthread_mutex_lock(&k->lock);
        int64_t now_ms = cf_real_mono_ms();
        if (now_ms < k->node->driver->vouch(k->node->backend)) {
            k->vouched_ms = now_ms;
        }
        stops = k->stops;
        (void)pthread_mutex_unlock(&k->lock);
        (void)poll(NULL, 0, 1);
    }
    return NULL;
}

static struct keeper keeper; /* outlives a test that fails */
static int keeper_runs;

static void stop_keeper(void)
{
    if (keeper_runs) {
        (void)pthread_mutex_lock(&keeper.lock);
        keeper.stops = 1;
        (void)pthread_mutex_unlock(&keeper.lock);
        (void)pthread_join(keeper.thread, NULL);
        (void)pthread_join(keeper.asker, NULL);
        (void)pthread_mutex_destroy(&keeper.lock);
        keeper_runs = 0;
    }
}

static int set_up(void **state)
{
    (void)snprintf(server, sizeof server, "/tmp/jpgo-%ld", (long)getpid());
    (void)snprintf(folder, sizeof folder, "/tmp/jpgp-%ld", (long)getpid());
    char command[128], listen_at[96], serve[96];
    (void)snprintf(command, sizeof command, "mkdir -p %s", folder);
    (void)snprintf(listen_at, sizeof listen_at, "%s/.s.PGSQL.5432", folder);
    (void)snprintf(serve, sizeof serve, "%s/.s.PGSQL.5432", server);
    postgres_directory = server;
    if (system(command) != 0 || postgres_script("start", server, "") != 0) {
        return -1;
    }
    link_of_owner = proxy_start(listen_at, serve);
    return link_of_owner == NULL ? -1 : postgres_set_up(state);
}

static int tear_down(void **state)
{
    stop_keeper();
    int result = cf_teardown(state);
    postgres_disconnect();
    proxy_stop(link_of_owner);
    (void)postgres_script("remove", server, "");
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0 ? -1 : result;
}

/* A node whose connections go through the proxy in a folder, as a role that can be locked out. */
static struct cf_node *open_owner(struct cf_world *world, const char *through)
{
    char sql[512], url[JOBSCHED_CONFORMANCE_URL_BYTES];
    (void)snprintf(sql, sizeof sql,
                   "CREATE ROLE owner LOGIN; GRANT USAGE ON SCHEMA \"%%s\" TO owner; GRANT SELECT, "
                   "INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \"%%s\" TO owner");
    postgres_do(sql);
    (void)snprintf(url, sizeof url, "%s", world->url);
    (void)snprintf(world->url, sizeof world->url,
                   "postgresql:///postgres?host=%s&user=owner&jobsched_schema=%s", through,
                   postgres_schema);
    struct cf_node *owner = cf_open(world, "owner");
    (void)snprintf(world->url, sizeof world->url, "%s", url);
    return owner;
}

static void watch_run(struct keeper *k, uint64_t token)
{
    (void)pthread_mutex_lock(&k->lock);
    k->token = token;
    k->told_ms = JOBSCHED_NONE;
    (void)pthread_mutex_unlock(&k->lock);
}

static int64_t vouched_ms(struct keeper *k)
{
    (void)pthread_mutex_lock(&k->lock);
    int64_t vouched = k->vouched_ms;
    (void)pthread_mutex_unlock(&k->lock);
    return vouched;
}

static unsigned losses_of(struct keeper *k)
{
    (void)pthread_mutex_lock(&k->lock);
    unsigned losses = k->losses;
    (void)pthread_mutex_unlock(&k->lock);
    return losses;
}

static int64_t told_ms(struct keeper *k)
{
    (void)pthread_mutex_lock(&k->lock);
    int64_t told = k->told_ms;
    (void)pthread_mutex_unlock(&k->lock);
    return told;
}

/* Waits until the owner renews again. */
static void await_owner(struct keeper *k)
{
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    (void)pthread_mutex_lock(&k->lock);
    unsigned before = k->successes;
    while (k->successes < before + 2) {
        (void)pthread_mutex_unlock(&k->lock);
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
        (void)pthread_mutex_lock(&k->lock);
    }
    (void)pthread_mutex_unlock(&k->lock);
}

/* Claims until it is granted, or the time is over; failures of the taker's own sessions do not
 * matter. */
static int take(struct cf_node *taker, jobsched_claim *claim, int64_t for_ms)
{
    int64_t until_ms = cf_real_mono_ms() + for_ms;
    do {
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        int code = taker->driver->claim(taker->backend, &call, claim, 1);
        if (code == JOBSCHED_OK && claim->answer == JOBSCHED_ANSWER_GRANTED) {
            return 1;
        }
        cf_true(code == JOBSCHED_OK || code == JOBSCHED_EUNREACHABLE || code == JOBSCHED_EUNKNOWN);
        cf_pause();
    } while (cf_real_mono_ms() < until_ms);
    return 0;
}

/* When the server granted the run, by the monotonic clock of this host, which is the server's. */
static int64_t granted_mono_ms(uint64_t token)
{
    char sql[160];
    (void)snprintf(sql, sizeof sql, "SELECT started_ms FROM \"%%s\".run WHERE token = %llu",
                   (unsigned long long)token);
    int64_t granted_ms = postgres_ask(sql);
    int64_t now_ms = postgres_ask("SELECT \"%s\".now_ms()");
    return granted_ms + cf_real_mono_ms() - now_ms;
}

enum fault { TERMINATED, CUT, RESTARTED };

static void end_session(enum fault fault, int stays_out)
{
    switch (fault) {
    case TERMINATED:
        if (stays_out) {
            postgres_do("ALTER ROLE owner NOLOGIN");
        }
        postgres_terminate("owner");
        break;
    case CUT:
        proxy_set(link_of_owner, stays_out ? PROXY_SHUT : PROXY_OPEN);
        proxy_cut(link_of_owner);
        break;
    case RESTARTED:
        proxy_set(link_of_owner, stays_out ? PROXY_SHUT : PROXY_OPEN);
        postgres_disconnect();
        cf_equal(postgres_script("stop", server, "fast"), 0);
        cf_equal(postgres_script("start", server, ""), 0);
        break;
    }
}

static void let_in(void)
{
    proxy_set(link_of_owner, PROXY_OPEN);
    postgres_do("ALTER ROLE owner LOGIN");
}

struct tally {
    int taken, kept, slow;
    int told;         /* rounds in which the owner was told of a loss */
    int64_t least_ms; /* between told and granted */
};

/* One round with occurrences k and k + 1 of the job. */
static void play(struct keeper *k, struct cf_node *taker, const struct cf_job *job, int64_t at,
                 enum fault fault, int stays_out, struct tally *tally)
{
    unsigned losses = losses_of(k);
    jobsched_claim run = cf_grant(k->node, job, at);
    watch_run(k, run.token);
    end_session(fault, stays_out);
    jobsched_claim next = cf_at(job, at + 1);
    int is_proof = stays_out && fault != RESTARTED;
    int taken = take(taker, &next, is_proof ? CF_POLL_MS : GRACE_MS + 150);
    int64_t told = told_ms(k), vouched = vouched_ms(k);
    /* On a busy machine an owner may take longer than its grace to come back. */
    cf_true(is_proof ? taken : fault != RESTARTED || !taken);
    tally->slow += taken && !is_proof;
    if (taken) {
        int64_t granted_ms = granted_mono_ms(next.token), slack_ms = granted_ms - told;
        cf_true(told != JOBSCHED_NONE);
        cf_true(slack_ms >= 0);
        cf_true(vouched < granted_ms);
        tally->least_ms = slack_ms < tally->least_ms ? slack_ms : tally->least_ms;
        tally->taken++;
    }
    let_in();
    await_owner(k);
    watch_run(k, 0);
    tally->told += losses_of(k) != losses;
    if (taken) {
        cf_equal(cf_finish(k->node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED),
                 JOBSCHED_LEASE_GONE);
    } else {
        /* It goes on as if nothing had been. */
        cf_equal(cf_finish(k->node, "job", run.token, JOBSCHED_OUTCOME_SUCCEEDED),
                 JOBSCHED_LEASE_KEPT);
        cf_ask(taker, &next);
        cf_answer(next, GRANTED);
        tally->kept++;
    }
    cf_equal(cf_finish(taker, "job", next.token, JOBSCHED_OUTCOME_SUCCEEDED), JOBSCHED_LEASE_KEPT);
}

static void start_keeper(struct cf_world *world, const char *through)
{
    keeper = (struct keeper){.node = open_owner(world, through), .told_ms = JOBSCHED_NONE};
    (void)pthread_mutex_init(&keeper.lock, NULL);
    cf_equal(pthread_create(&keeper.thread, NULL, engine, &keeper), 0);
    cf_equal(pthread_create(&keeper.asker, NULL, ask, &keeper), 0);
    keeper_runs = 1;
}

static struct tally play_all(struct cf_world *world, enum fault fault, const char *name,
                             const char *through, int count)
{
    struct cf_node *taker = cf_open(world, "taker");
    start_keeper(world, through);
    struct cf_job job = cf_job(keeper.node, "job", 2 * (int64_t)count);
    struct tally tally = {.least_ms = JOBSCHED_NONE};
    for (int i = 0; i < count; i++) {
        play(&keeper, taker, &job, 2 * i + 1, fault, through == folder && i % 2 == 1, &tally);
    }
    stop_keeper();
    print_message("%s: kept %d, taken %d (%d of them for coming back too late)", name, tally.kept,
                  tally.taken, tally.slow);
    if (tally.taken > 0) {
        print_message(", told at least %lld ms before", (long long)tally.least_ms);
    }
    print_message("\n");
    cf_equal(postgres_ask("SELECT count(*) FROM \"%s\".untold"), tally.taken);
    cf_equal(tally.kept + tally.taken, count);
    cf_true(tally.slow <= tally.kept);
    return tally;
}

/* G5: a session that somebody ends by force. */
static void test_terminated(void **state)
{
    (void)play_all(*state, TERMINATED, "pg_terminate_backend", folder, rounds);
}

/* G5: a connection that is cut. */
static void test_cut(void **state)
{
    (void)play_all(*state, CUT, "cut link", folder, rounds);
}

/* G5: a server that is restarted: all sessions end, and that proves nobody's death. */
static void test_restarted(void **state)
{
    (void)play_all(*state, RESTARTED, "restarted server", folder, rounds);
}

/* Where the owner itself sees that nobody is there, its run need not even be told. */
static void test_down(void **state)
{
    struct tally tally = play_all(*state, RESTARTED, "restarted server, seen", server, rounds / 4);
    /* But where the server hangs on its way down, which a busy machine makes it do now and then. */
    cf_true(tally.told * 2 <= tally.kept);
}

/* G5: where the way back is refused although the server is up, as by a firewall or by a proxy that is
 * gone, that proves nothing: others can be granted the run, so it is told. */
static void test_refused(void **state)
{
    struct cf_world *world = *state;
    struct cf_node *taker = cf_open(world, "taker");
    char serve[96], through[64];
    (void)snprintf(serve, sizeof serve, "%s/.s.PGSQL.5432", server);
    proxy *link = proxy_start(NULL, serve);
    assert_non_null(link);
    (void)snprintf(through, sizeof through, "127.0.0.1&port=%d", proxy_port(link));
    start_keeper(world, through);
    struct cf_job job = cf_job(keeper.node, "job", 2);
    jobsched_claim run = cf_grant(keeper.node, &job, 1);
    watch_run(&keeper, run.token);
    proxy_stop(link); /* from here on the kernel refuses */
    jobsched_claim next = cf_at(&job, 2);
    int taken = take(taker, &next, CF_POLL_MS);
    int64_t vouched = vouched_ms(&keeper);
    int64_t granted_ms = taken ? granted_mono_ms(next.token) : 0;
    int64_t slack_ms = granted_ms - told_ms(&keeper);
    print_message("refused: told %lld ms before\n", (long long)slack_ms);
    cf_true(taken);
    cf_true(slack_ms >= 0);
    cf_true(vouched < granted_ms);
    stop_keeper();
    cf_true(keeper.losses > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(test_terminated), TEST(test_cut),     TEST(test_restarted),
        TEST(test_down),       TEST(test_refused),
    };
    if (argc > 2) {
        cmocka_set_test_filter(argv[2]);
    }
    if (argc > 3) {
        rounds = (int)strtol(argv[3], NULL, 10);
    }
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
