/* From a URL to a backend, and what becomes of an open that fails (G8, G13): every refusal says what
 * is wrong and leaves nothing behind. */
#include "support/events.h"
#include "support/fake_backend.h"
#include "support/test_memory.h"
#include "support/typed.h"

#include "engine/internal.h"

static void refuse(const char *lock, int code, const char *text)
{
    struct test_memory memory;
    test_memory_init(&memory);
    jobsched_allocator allocator = test_memory_allocator(&memory);
    jobsched_options options;
    JOBSCHED_INIT(&options);
    options.lock = lock;
    options.allocator = &allocator;
    jobsched *s = NULL;
    assert_fails(jobsched_open(&options, &s), code, text);
    assert_null(s);
    assert_equal(memory.live, 0);
}

static void test_malformed_urls(void **state)
{
    (void)state;
    refuse("", JOBSCHED_EINVAL, "no scheme");
    refuse("single", JOBSCHED_EINVAL, "no scheme");
    refuse(":", JOBSCHED_EINVAL, "no scheme");
    refuse("/var/lib/jobs.db", JOBSCHED_EINVAL, "no scheme");
    refuse("Single:", JOBSCHED_EINVAL, "at byte 0; write it in lower case: 'single:'");
    refuse("rediS://host", JOBSCHED_EINVAL, "at byte 4; write it in lower case: 'redis:'");
    refuse("geHeim:x", JOBSCHED_EINVAL, "at byte 2");
    assert_null(strstr(jobsched_last_error()->message, "eHeim"));
    refuse("jobs.db", JOBSCHED_EINVAL, "'single:'");
    assert_non_null(strstr(jobsched_last_error()->message, "'sqlite:"));
    assert_non_null(strstr(jobsched_last_error()->message, "'postgresql:"));
    assert_non_null(strstr(jobsched_last_error()->message, "'redis:"));
    refuse("sin gle:", JOBSCHED_EINVAL, "at byte 3");
    refuse("../../tmp/evil:", JOBSCHED_EINVAL, "at byte 0");
    refuse("a/b:", JOBSCHED_EINVAL, "at byte 1");
    refuse("1a:", JOBSCHED_EINVAL, "at byte 0");
    refuse("an-unreasonably-long-scheme-name-of-many-letters:", JOBSCHED_EINVAL, "no scheme");
    refuse("single:rest", JOBSCHED_EINVAL, "single:");
}

/* Passwords do not appear in errors. */
static void test_unknown_schemes(void **state)
{
    (void)state;
    refuse("nosuch://user:secret@host/x", JOBSCHED_ENOBACKEND, "'nosuch'");
    assert_non_null(strstr(jobsched_last_error()->message, "libjobsched-nosuch.so"));
    assert_null(strstr(jobsched_last_error()->message, "secret"));
    refuse("x+y-z:", JOBSCHED_ENOBACKEND, "'x+y-z'");
}

/* What is in front of the ':' need not be a scheme at all: the error asks, and shows nothing that
 * could be a password. The schemes that ship are told to be installed (check.sh, as here they may
 * be there). */
static void test_schemes_that_are_missing(void **state)
{
    (void)state;
    static const char *const urls[] = {"localhost:6379", "mysql://app:secret@host/db",
                                       "app:secret"};
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        refuse(urls[i], JOBSCHED_ENOBACKEND, "is the scheme missing");
        assert_null(strstr(jobsched_last_error()->message, "install"));
        assert_null(strstr(jobsched_last_error()->message, "secret"));
        assert_non_null(strstr(jobsched_last_error()->message, "libjobsched-"));
        assert_non_null(strstr(jobsched_last_error()->message, "'redis://host'"));
    }
    refuse("secret:x@host", JOBSCHED_ENOBACKEND, "is the scheme missing");
    assert_null(strstr(jobsched_last_error()->message, "secret"));
    refuse("unix:/run/redis.sock", JOBSCHED_ENOBACKEND, "'redis://?socket=/path'");
    refuse("redis+socket:///run/redis.sock", JOBSCHED_ENOBACKEND, "'redis://?socket=/path'");
}

static int must_not_open(const jobsched_backend_config *config, void **out_backend)
{
    (void)config;
    (void)out_backend;
    return JOBSCHED_EINTERNAL;
}

static void test_wrong_contract_is_refused(void **state)
{
    (void)state;
    static const uint32_t versions[] = {0, JOBSCHED_BACKEND_ABI + 1, UINT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        jobsched_backend driver = {.abi = versions[i], .scheme = "odd", .open = must_not_open};
        const jobsched_backend *const drivers[] = {&driver, NULL};
        jobsched_options options;
        JOBSCHED_INIT(&options);
        options.lock = "odd:";
        options.backends = drivers;
        jobsched *s = NULL;
        assert_fails(jobsched_open(&options, &s), JOBSCHED_ENOBACKEND, "'odd' was built for");
    }
}

/* The driver is found among several by its whole scheme. */
static void test_given_drivers_are_found(void **state)
{
    (void)state;
    struct fake_backend fake;
    fake_backend_init(&fake, NULL);
    jobsched_backend other = {.abi = JOBSCHED_BACKEND_ABI, .scheme = "fak", .open = must_not_open};
    jobsched_backend longer = other;
    longer.scheme = "faker";
    const jobsched_backend *const drivers[] = {&other, &longer, fake_backend_drivers()[0], NULL};
    jobsched_options options;
    JOBSCHED_INIT(&options);
    options.lock = fake.url;
    options.backends = drivers;
    jobsched *s = NULL;
    assert_equal(jobsched_open(&options, &s), 0);
    assert_equal(fake.calls[FAKE_OPEN], 1);
    assert_equal(jobsched_close(s), 0);
    assert_equal(fake.calls[FAKE_CLOSE], 1);
    fake_backend_fini(&fake);
}

static int refuse_to_open(const jobsched_backend_config *config, void **out_backend)
{
    (void)out_backend;
    return jobsched_fail(JOBSCHED_EREFUSED, 0, "was given '%s'", config->url);
}

/* Schemes that one driver takes besides its own reach it as they were written. */
static void test_other_names_of_a_scheme(void **state)
{
    (void)state;
    static const char *const urls[][2] = {{"postgres://host/db", "postgresql"},
                                          {"postgresql://host/db", "postgresql"},
                                          {"rediss://host", "redis"},
                                          {"redis+sentinel://host/primary", "redis"},
                                          {"redis://host", "redis"}};
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        jobsched_backend driver = *fake_backend_drivers()[0];
        driver.scheme = urls[i][1];
        driver.open = refuse_to_open;
        const jobsched_backend *const drivers[] = {&driver, NULL};
        jobsched_options options;
        JOBSCHED_INIT(&options);
        options.lock = urls[i][0];
        options.backends = drivers;
        jobsched *s = NULL;
        assert_fails(jobsched_open(&options, &s), JOBSCHED_EREFUSED, urls[i][0]);
    }
}

/* A backend that cannot be opened: its code and words reach the caller; nothing stays; and it can be
 * tried again. */
static void test_failed_open_leaves_nothing(void **state)
{
    (void)state;
    static const int codes[] = {JOBSCHED_EUNREACHABLE, JOBSCHED_EACCESS, JOBSCHED_ESCHEMA,
                                JOBSCHED_EDATALOST,    JOBSCHED_EFULL,   JOBSCHED_EINVAL};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        struct test_memory memory;
        struct fake_backend fake;
        struct event_log events;
        test_memory_init(&memory);
        event_log_init(&events);
        fake_backend_init(&fake, NULL);
        jobsched_allocator allocator = test_memory_allocator(&memory);
        jobsched_options options;
        JOBSCHED_INIT(&options);
        options.lock = fake.url;
        options.backends = fake_backend_drivers();
        options.allocator = &allocator;
        options.observer = event_log_observe;
        options.observer_data = &events;
        fake_backend_fail(&fake, FAKE_OPEN, codes[i], 1, false);
        jobsched *s = NULL;
        assert_fails(jobsched_open(&options, &s), codes[i], "the script says so");
        assert_null(s);
        assert_equal(memory.live, 0);
        assert_equal(fake.calls[FAKE_CLOSE], 0);
        assert_equal(jobsched_open(&options, &s), 0);
        assert_equal(jobsched_close(s), 0);
        assert_equal(memory.live, 0);
        event_log_fini(&events);
        fake_backend_fini(&fake);
    }
}

/* What a backend is told of the node that opens it. */
static void test_backend_is_told_the_settings(void **state)
{
    (void)state;
    struct fake_backend fake;
    fake_backend_init(&fake, NULL);
    jobsched_options options;
    JOBSCHED_INIT(&options);
    options.lock = fake.url;
    options.backends = fake_backend_drivers();
    options.lease_ms = 12000;
    options.history_count = 5;
    options.name_space = "shop";
    jobsched *s = NULL, *other = NULL;
    assert_equal(jobsched_open(&options, &s), 0);
    assert_string_equal(s->config.url, fake.url);
    assert_string_equal(s->config.name_space, "shop");
    assert_equal(s->config.lease_ms, 12000);
    assert_equal(s->config.request_timeout_ms, 2000);
    assert_equal(s->config.history_count, 5);
    assert_equal(s->config.history_age_ms, JSI_HISTORY_AGE_DEFAULT_MS);
    assert_equal(strspn(s->config.node_id, "0123456789abcdef"), 32);
    assert_equal(strlen(s->config.node_id), 32);
    assert_non_null(strchr(s->config.node_name, ':')); /* host and process */
    assert_equal(jobsched_open(NULL, &other), 0);
    assert_string_not_equal(s->config.node_id, other->config.node_id);
    assert_string_equal(other->config.name_space, "default");
    assert_string_equal(other->config.url, "single:");
    assert_equal(jobsched_close(other), 0);
    assert_equal(jobsched_close(s), 0);
    fake_backend_fini(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_malformed_urls),
        cmocka_unit_test(test_unknown_schemes),
        cmocka_unit_test(test_schemes_that_are_missing),
        cmocka_unit_test(test_other_names_of_a_scheme),
        cmocka_unit_test(test_wrong_contract_is_refused),
        cmocka_unit_test(test_given_drivers_are_found),
        cmocka_unit_test(test_failed_open_leaves_nothing),
        cmocka_unit_test(test_backend_is_told_the_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
