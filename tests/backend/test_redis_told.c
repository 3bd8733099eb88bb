/* test_redis_told.c: what a scheduler's observer is told when a real server fails, class by class.
 * Locks: told.mutex guards what was told; the observer asserts nothing. */
#include "redis_support.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>

#define WORD "geheim-wort"

enum { SOON_MS = 60000, KINDS = 128 };

static struct {
    pthread_mutex_t mutex;
    int counts[KINDS];
    int codes[KINDS];
    char texts[KINDS][1024]; /* the latest of each kind */
    int with_word;           /* whatever showed the password */
} told = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void observe(const jobsched_event *event, void *user_data)
{
    (void)user_data;
    (void)pthread_mutex_lock(&told.mutex);
    if (event->kind >= 0 && event->kind < KINDS) {
        told.counts[event->kind]++;
        told.codes[event->kind] = event->code;
        (void)snprintf(told.texts[event->kind], sizeof told.texts[0], "%s", event->message);
    }
    told.with_word += strstr(event->message, WORD) != NULL;
    (void)pthread_mutex_unlock(&told.mutex);
}

static int count_of(int kind)
{
    (void)pthread_mutex_lock(&told.mutex);
    int count = told.counts[kind];
    (void)pthread_mutex_unlock(&told.mutex);
    return count;
}

static int is_told(int kind, int more_than, const char *text)
{
    (void)pthread_mutex_lock(&told.mutex);
    int is = told.counts[kind] > more_than && strstr(told.texts[kind], text) != NULL;
    (void)pthread_mutex_unlock(&told.mutex);
    return is;
}

/* What contains the text: there may be another one of the kind, that a busy machine has made. */
static void wait_told(int kind, int more_than, const char *text)
{
    int64_t until_ms = cf_real_mono_ms() + SOON_MS;
    while (!is_told(kind, more_than, text)) {
        cf_true(cf_real_mono_ms() < until_ms);
        (void)poll(NULL, 0, 10);
    }
}

static int work(jobsched_run *run, void *user_data)
{
    (void)run;
    (void)user_data;
    return 0;
}

static jobsched *open_scheduler(void)
{
    char url[REDIS_TEXT_BYTES];
    const jobsched_backend *drivers[] = {jobsched_backend_redis(), NULL};
    (void)redis_ask("ACL SETUSER app on >" WORD " ~* &* +@all");
    (void)snprintf(url, sizeof url, "redis://app:" WORD "@?socket=%s/redis.sock", redis_directory);
    jobsched_options options;
    jobsched_job_spec spec;
    jobsched *s = NULL;
    JOBSCHED_INIT(&options);
    options.lock = url;
    options.name_space = "told";
    options.backends = drivers;
    options.observer = observe;
    options.request_timeout_ms = 6000;
    cf_ok(jobsched_open(&options, &s));
    JOBSCHED_INIT(&spec);
    spec.name = "job";
    spec.schedule = "* * * * * *";
    spec.run = work;
    cf_ok(jobsched_add(s, &spec, NULL));
    cf_ok(jobsched_start(s));
    return s;
}

/* Issue 4, G8: each class of failure of a real server is told under its own id, with its code, and a
 * text that names the server and says what to do; then that it is over; and never the password. */
static void test_each_class_is_told_with_a_remedy(void **state)
{
    static const struct {
        const char *breaks, *cures;
        int kind, code;
        const char *says, *remedy;
    } faults[] = {
        {"CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0",
         JOBSCHED_EVENT_BACKEND_UNREACHABLE, JOBSCHED_EUNREACHABLE, "NOREPLICAS",
         "see that it runs"},
        {"CLIENT PAUSE 9000 ALL", "PING", JOBSCHED_EVENT_BACKEND_UNKNOWN, JOBSCHED_EUNKNOWN,
         "no answer from", "'request_timeout'"},
        {"REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", JOBSCHED_EVENT_BACKEND_REFUSED,
         JOBSCHED_EREFUSED, "replica", "'jobschedctl doctor'"},
        {"ACL SETUSER app -evalsha", "ACL SETUSER app +evalsha", JOBSCHED_EVENT_BACKEND_ACCESS,
         JOBSCHED_EACCESS, "NOPERM", "grant the rights"},
        {"ACL SETUSER app resetpass >anders", "ACL SETUSER app resetpass >" WORD,
         JOBSCHED_EVENT_BACKEND_ACCESS, JOBSCHED_EACCESS, "WRONGPASS", "correct the credentials"},
        {"HINCRBY {jobsched:told}:meta version 100", "HINCRBY {jobsched:told}:meta version -100",
         JOBSCHED_EVENT_BACKEND_SCHEMA, JOBSCHED_ESCHEMA, "layout version", "is deployed"},
        {"CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", JOBSCHED_EVENT_BACKEND_FULL,
         JOBSCHED_EFULL, "'maxmemory' is used up", "free some"},
    };
    (void)state;
    jobsched *s = open_scheduler();
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        int before = count_of(faults[i].kind);
        int recovered = count_of(JOBSCHED_EVENT_BACKEND_RECOVERED);
        (void)redis_ask(faults[i].breaks);
        if (strstr(faults[i].breaks, "resetpass") != NULL) {
            (void)redis_ask("CLIENT KILL USER app"); /* so that they log in again */
        }
        printf("%s\n", faults[i].breaks);
        wait_told(faults[i].kind, before, faults[i].says);
        (void)redis_ask(faults[i].cures);
        (void)pthread_mutex_lock(&told.mutex);
        char text[1024];
        int code = told.codes[faults[i].kind];
        (void)snprintf(text, sizeof text, "%s", told.texts[faults[i].kind]);
        (void)pthread_mutex_unlock(&told.mutex);
        printf("%s: %s\n", jobsched_event_name(faults[i].kind), text);
        cf_equal(code, faults[i].code);
        cf_true(strstr(text, faults[i].says) != NULL);
        cf_true(strstr(text, faults[i].remedy) != NULL);
        cf_true(strstr(text, redis_directory) != NULL);
        wait_told(JOBSCHED_EVENT_BACKEND_RECOVERED, recovered, "");
    }
    jobsched_close(s);
    cf_equal(told.with_word, 0);
}

int main(void)
{
#define REDIS_TEST(function)                                                                       \
    cmocka_unit_test_setup_teardown(function, redis_set_up, redis_tear_down)
    const struct CMUnitTest tests[] = {
        REDIS_TEST(test_each_class_is_told_with_a_remedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
