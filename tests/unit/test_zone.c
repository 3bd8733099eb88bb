/* The reader of zone files (G12): its offsets are those of the C library in every zone
 * and at every transition, footers of all kinds included; damaged files are refused; the
 * cache shares and reloads. Sets TZ, so it is a process of its own. */
#include "schedule/civil.h"
#include "schedule/schedule.h"
#include "schedule/zone.h"

#include "base/alloc.h"

#include <jobsched.h>

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define SYSTEM_DIRECTORY "/usr/share/zoneinfo"

static jobsched_allocator plain;

static int64_t offset_of(const struct jsi_zone *zone, int64_t at)
{
    return zone->segments[jsi_zone_find(zone, at)].offset;
}

/* TZ must be set. */
static int64_t library_offset(int64_t at)
{
    time_t time = (time_t)at;
    struct tm tm;
    if (localtime_r(&time, &tm) == NULL) {
        return INT64_MIN;
    }
    return tm.tm_gmtoff;
}

static int differences;
static long compared;

static void compare_at(const struct jsi_zone *zone, int64_t at)
{
    int64_t got = offset_of(zone, at);
    int64_t wanted = library_offset(at);
    compared++;
    if (got != wanted && differences++ < 20) {
        print_error("%s at %lld: offset %lld, the C library says %lld\n", zone->name, (long long)at,
                    (long long)got, (long long)wanted);
    }
}

/* At each transition and a second before and after it, and each 20 days so that none is
 * overlooked. */
static void compare_zone(const struct jsi_zone *zone, int64_t to)
{
    for (size_t i = 1; i < zone->count && zone->segments[i].start < to; i++) {
        int64_t at = zone->segments[i].start;
        if (at > 0) {
            compare_at(zone, at - 1);
            compare_at(zone, at);
            compare_at(zone, at + 1);
        }
    }
    for (int64_t at = 0; at < to; at += 20 * 86400 + 3571) {
        compare_at(zone, at);
    }
}

static void set_library_zone(const char *value)
{
    assert_int_equal(setenv("TZ", value, 1), 0);
    tzset();
}

static int zones_seen;
static const char *directory_seen;

static int visit_zone(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status;
    (void)walk;
    const char *name = path + strlen(directory_seen) + 1;
    if (kind != FTW_F || strchr(name, '.') != NULL || strncmp(name, "right/", 6) == 0 ||
        strncmp(name, "posix/", 6) == 0) {
        return 0;
    }
    const struct jsi_zone *zone = NULL;
    if (jsi_zone_load(&plain, directory_seen, name, &zone) != JSI_ZONE_OK) {
        return 0; /* leapseconds and the like; the count below guards against too many */
    }
    char value[128];
    (void)snprintf(value, sizeof value, ":%s", path);
    set_library_zone(value);
    zones_seen++;
    /* Dense up to 2041, beyond the last transition of fat files, then by samples. */
    compare_zone(zone, INT64_C(2240611200));
    for (int year = 2041; year <= JSI_YEAR_MAX; year += 27) {
        for (int month = 1; month <= 12; month++) {
            compare_at(zone, jsi_civil_days(year, month, 1) * 86400);
        }
    }
    jsi_zone_release(zone);
    return 0;
}

static void compare_directory(const char *directory, int zones_min)
{
    differences = 0;
    compared = 0;
    zones_seen = 0;
    directory_seen = directory;
    assert_int_equal(nftw(directory, visit_zone, 16, FTW_PHYS), 0);
    print_message("%d zones, %ld offsets compared\n", zones_seen, compared);
    assert_int_equal(differences, 0);
    assert_true(zones_seen > zones_min);
}

static void test_offsets_equal_the_c_librarys_in_every_zone(void **state)
{
    (void)state;
    if (access(SYSTEM_DIRECTORY "/Europe/Berlin", R_OK) != 0) {
        skip();
    }
    compare_directory(SYSTEM_DIRECTORY, 300);
}

static void test_offsets_equal_the_c_librarys_in_the_fixtures(void **state)
{
    (void)state;
    compare_directory(JOBSCHED_TESTS_DATA "/zoneinfo-fat", 36);
    compare_directory(JOBSCHED_TESTS_DATA "/zoneinfo-slim", 36);
}

/* A file of version 2 with one type and the given footer; returns its size. */
static size_t make_file(unsigned char *out, int32_t offset, const char *footer)
{
    static const unsigned char counts[24] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                             0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 4};
    size_t used = 0;
    for (int block = 0; block < 2; block++) {
        memcpy(out + used, "TZif2", 5);
        memset(out + used + 5, 0, 15);
        memcpy(out + used + 20, counts, sizeof counts);
        used += 44;
        uint32_t value = (uint32_t)offset;
        for (int i = 0; i < 4; i++) {
            out[used + (size_t)i] = (unsigned char)(value >> (24 - 8 * i));
        }
        memcpy(out + used + 4, "\0\0XXX\0", 6);
        used += 10;
    }
    used += (size_t)sprintf((char *)out + used, "\n%s\n", footer);
    return used;
}

static void test_footers_equal_the_c_librarys(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int32_t offset;
    } footers[] = {{"IST-1GMT0,M10.5.0,M3.5.0/1", 3600},
                   {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", -7200},
                   {"EET-2EEST,M4.5.5/0,M10.5.4/24", 7200},
                   {"EET-2EEST,M3.4.4/50,M10.4.4/50", 7200},
                   {"<-04>4<-03>,M9.1.6/24,M4.1.6/24", -14400},
                   {"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 37800},
                   {"<+00>0<+02>-2,M3.5.0/1,M10.5.0/3", 0},
                   {"EST5EDT,M3.2.0,M11.1.0", -18000},
                   {"AAA3BBB,J60/0,J300/1:30:15", -10800},
                   {"AAA-3:15:07BBB-4,59,300/-23", 11707},
                   {"<+0330>-3:30", 12600},
                   {"UTC0", 0}};
    differences = 0;
    for (size_t i = 0; i < sizeof footers / sizeof footers[0]; i++) {
        unsigned char file[512];
        const struct jsi_zone *zone = NULL;
        size_t size = make_file(file, footers[i].offset, footers[i].text);
        assert_int_equal(jsi_zone_decode(&plain, file, size, footers[i].text, "", &zone),
                         JSI_ZONE_OK);
        set_library_zone(footers[i].text);
        compare_zone(zone, INT64_C(7258118400));
        assert_true(zone->uncertain_after == INT64_MAX);
        jsi_zone_release(zone);
    }
    assert_int_equal(differences, 0);
}

/* Permanent daylight saving by a rule without a gap between two years: RFC 9636. */
static void test_all_year_daylight_saving_has_one_offset(void **state)
{
    (void)state;
    unsigned char file[512];
    const struct jsi_zone *zone = NULL;
    size_t size = make_file(file, -18000, "XXX3EDT4,0/0,J365/23");
    assert_int_equal(jsi_zone_decode(&plain, file, size, "x", "", &zone), JSI_ZONE_OK);
    for (int64_t at = 86400; at < INT64_C(7258118400); at += 86400 * 5 + 7) {
        assert_int_equal(offset_of(zone, at), -14400);
    }
    jsi_zone_release(zone);
}

static void test_bad_footers_are_refused(void **state)
{
    (void)state;
    static const char *const footers[] = {"X5",
                                          "XXX",
                                          "XXX26",
                                          "XXX5YYY",
                                          "XXX5YYY,M3.2.0",
                                          "<A5",
                                          "<>5",
                                          "<A_B>5",
                                          "XXX5YYY4,",
                                          "XXX5YYY,M13.1.0,M11.1.0",
                                          "XXX5YYY,M3.6.0,M11.1.0",
                                          "XXX5YYY,M3.2.7,M11.1.0",
                                          "XXX5YYY,J0,J365",
                                          "XXX5YYY,J366,J1",
                                          "XXX5YYY,366,1",
                                          "XXX5YYY,M3.2.0/168,M11.1.0",
                                          "XXX5:60",
                                          "XXX5YYY,M3.2.0,M11.1.0x",
                                          "XXX5YYY,M3.2.0,M11.1.0 ",
                                          " XXX5",
                                          "XXX99999999999"};
    for (size_t i = 0; i < sizeof footers / sizeof footers[0]; i++) {
        unsigned char file[512];
        const struct jsi_zone *zone = NULL;
        size_t size = make_file(file, 0, footers[i]);
        if (jsi_zone_decode(&plain, file, size, "x", "", &zone) != JSI_ZONE_DAMAGED) {
            fail_msg("footer '%s' was taken", footers[i]);
        }
    }
}

static size_t read_fixture(const char *name, unsigned char *out, size_t size)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", JOBSCHED_TESTS_DATA, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t got = fread(out, 1, size, file);
    (void)fclose(file);
    assert_in_range(got, 100, size - 1);
    return got;
}

/* Whatever a changed file says, it is refused or leads to a table that can be searched. */
static void check_hostile(const unsigned char *bytes, size_t size, int *taken)
{
    const struct jsi_zone *zone = NULL;
    unsigned char *copy = malloc(size > 0 ? size : 1); /* exactly sized, for the sanitizers */
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    enum jsi_zone_result result = jsi_zone_decode(&plain, copy, size, "x", "", &zone);
    free(copy);
    if (result != JSI_ZONE_OK) {
        assert_true(result == JSI_ZONE_DAMAGED || result == JSI_ZONE_LEAP);
        return;
    }
    (*taken)++;
    for (size_t i = 1; i < zone->count; i++) {
        assert_true(zone->segments[i].start > zone->segments[i - 1].start);
        assert_true(zone->segments[i].offset != zone->segments[i - 1].offset);
        assert_true(zone->segments[i].offset < JSI_OFFSET_LIMIT_S &&
                    zone->segments[i].offset > -JSI_OFFSET_LIMIT_S);
    }
    jsi_zone_release(zone);
}

static void test_damaged_files_are_refused_or_harmless(void **state)
{
    (void)state;
    static const char *const names[] = {"zoneinfo-slim/America/New_York",
                                        "zoneinfo-slim/Africa/Monrovia",
                                        "zoneinfo-fat/Pacific/Apia"};
    int taken = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsigned char bytes[8192];
        size_t size = read_fixture(names[i], bytes, sizeof bytes);
        for (size_t cut = 0; cut < size; cut++) {
            check_hostile(bytes, cut, &taken);
        }
        assert_int_equal(taken, 0); /* no shortened file is whole */
        for (size_t at = 0; at < size; at++) {
            unsigned char kept = bytes[at];
            static const unsigned char changes[] = {0, 1, 0x7f, 0x80, 0xff, ','};
            for (size_t k = 0; k < sizeof changes; k++) {
                bytes[at] = changes[k];
                check_hostile(bytes, size, &taken);
            }
            bytes[at] = kept;
        }
        assert_true(taken > 100);
        taken = 0;
    }
}

static void test_leap_second_files_are_refused(void **state)
{
    (void)state;
    unsigned char bytes[8192];
    unsigned char file[512];
    const struct jsi_zone *zone = NULL;
    size_t size = make_file(file, 0, "UTC0");
    /* One leap second record behind the types of the second block. */
    file[54 + 31] = 1;
    memcpy(bytes, file, 108);
    memset(bytes + 108, 0, 12);
    memcpy(bytes + 120, file + 108, size - 108);
    assert_int_equal(jsi_zone_decode(&plain, bytes, size + 12, "x", "", &zone), JSI_ZONE_LEAP);
}

/* A file of version 1 has no footer: what comes after its last transition is not known. */
static void test_version_1_files_end(void **state)
{
    (void)state;
    unsigned char bytes[8192];
    const struct jsi_zone *zone = NULL;
    size_t size = read_fixture("zoneinfo-fat/America/New_York", bytes, sizeof bytes);
    bytes[4] = 0;
    assert_int_equal(jsi_zone_decode(&plain, bytes, size, "x", "", &zone), JSI_ZONE_OK);
    assert_int_equal(offset_of(zone, 1720000000), -4 * 3600);
    assert_int_equal(offset_of(zone, INT64_C(4112658000)), -5 * 3600); /* April 2100 */
    assert_true(zone->uncertain_after > 2100000000 && zone->uncertain_after < 2200000000);
    jsi_zone_release(zone);
}

static int parse_in(const char *directory, const char *name, jobsched_schedule **out_schedule)
{
    jobsched_schedule_options options;
    JOBSCHED_INIT(&options);
    options.timezone = name;
    options.zone_directory = directory;
    return jobsched_schedule_parse("0 3 * * *", &options, out_schedule);
}

static void test_names_that_are_no_zones_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {
        "Nowhere/City",
        "Europe",
        "/etc/passwd",
        "../etc/passwd",
        "Europe/../UTC",
        "Europe//Berlin",
        "Europe/Berlin/",
        "right/UTC",
        "posix/Europe/Berlin",
        "tzdata.zi",
        "Europe/Berlin\n",
        "Euro pe",
        "leapseconds",
        "localtime",
        "posixrules",
        "a/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        jobsched_schedule *schedule = NULL;
        int code = parse_in(JOBSCHED_TESTS_DATA "/zoneinfo-slim", names[i], &schedule);
        if (code != JOBSCHED_EPARSE || jobsched_last_error()->reason != JOBSCHED_SYNTAX_ZONE ||
            jobsched_last_error()->position != 0) {
            fail_msg("'%s': code %d, %s", names[i], code, jobsched_last_error()->message);
        }
    }
}

static void test_a_zone_tells_where_its_data_comes_from(void **state)
{
    (void)state;
    jobsched_schedule *schedule = NULL;
    assert_int_equal(parse_in(JOBSCHED_TESTS_DATA "/zoneinfo-fat", "Europe/Berlin", &schedule),
                     JOBSCHED_OK);
    assert_string_equal(jobsched_schedule_zone(schedule), "Europe/Berlin");
    assert_string_equal(jobsched_schedule_zone_version(schedule), "2025b-fat");
    assert_true(jobsched_schedule_uncertain_after(schedule) == JOBSCHED_NONE);
    jobsched_schedule_free(schedule);
    /* TZDIR comes next. */
    assert_int_equal(setenv("TZDIR", JOBSCHED_TESTS_DATA "/zoneinfo-slim", 1), 0);
    assert_int_equal(parse_in("/nonexistent", "Europe/Berlin", &schedule), JOBSCHED_OK);
    assert_string_equal(jobsched_schedule_zone_version(schedule), "2025b-slim");
    jobsched_schedule_free(schedule);
    assert_int_equal(unsetenv("TZDIR"), 0);
}

/* Runs in a child whose root is an empty folder: nothing of the system's data is there. */
static int parse_without_data(const char *root)
{
    jobsched_schedule *schedule = NULL;
    if (chroot(root) != 0 || chdir("/") != 0) {
        return 77;
    }
    if (parse_in(NULL, "UTC", &schedule) != JOBSCHED_OK) {
        return 1; /* needs no data */
    }
    jobsched_schedule_free(schedule);
    bool told = parse_in(NULL, "Europe/Berlin", &schedule) == JOBSCHED_ENOTFOUND &&
                jobsched_last_error()->reason == JOBSCHED_SYNTAX_ZONE &&
                strstr(jobsched_last_error()->message, "install tzdata") != NULL;
    return told ? 0 : 2;
}

static void test_missing_zone_data_says_what_to_install(void **state)
{
    (void)state;
    char root[] = "/tmp/jobsched-empty-XXXXXX";
    assert_non_null(mkdtemp(root));
    pid_t child = fork();
    if (child == 0) {
        _exit(parse_without_data(root));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(rmdir(root), 0);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        skip(); /* changing the root needs privileges */
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* G13: the process's own time zone has no say. */
static void test_the_process_zone_has_no_influence(void **state)
{
    (void)state;
    static const char *const values[] = {"America/New_York", "Asia/Tokyo", "XXX-3:15", ""};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        jobsched_schedule *schedule = NULL;
        set_library_zone(values[i]);
        assert_int_equal(parse_in(JOBSCHED_TESTS_DATA "/zoneinfo-slim", "Europe/Berlin", &schedule),
                         JOBSCHED_OK);
        assert_true(jobsched_schedule_next(schedule, INT64_C(1711800000000)) ==
                    INT64_C(1711846800000)); /* 31 March 2024, 03:00 in Berlin is 01:00Z */
        assert_string_equal(getenv("TZ"), values[i]);
        jobsched_schedule_free(schedule);
    }
}

static void test_a_cache_shares_and_reloads(void **state)
{
    (void)state;
    struct jsi_zone_cache *cache = NULL;
    const struct jsi_zone *first = NULL;
    const struct jsi_zone *second = NULL;
    assert_int_equal(jsi_zone_cache_new(&plain, JOBSCHED_TESTS_DATA "/zoneinfo-slim", &cache),
                     JOBSCHED_OK);
    assert_int_equal(jsi_zone_cache_find(cache, "Asia/Gaza", &first), JSI_ZONE_OK);
    assert_int_equal(jsi_zone_cache_find(cache, "Asia/Gaza", &second), JSI_ZONE_OK);
    assert_ptr_equal(first, second);
    assert_int_equal(jsi_zone_cache_find(cache, "Nowhere/City", &second), JSI_ZONE_UNKNOWN);
    jsi_zone_release(first);
    jsi_zone_cache_reload(cache);
    const struct jsi_zone *third = NULL;
    assert_int_equal(jsi_zone_cache_find(cache, "Asia/Gaza", &third), JSI_ZONE_OK);
    assert_ptr_not_equal(first, third); /* the old one lives on, its place is taken */
    assert_string_equal(first->name, "Asia/Gaza");
    jsi_zone_release(second);
    jobsched_schedule *schedule = NULL;
    jobsched_schedule_options options;
    JOBSCHED_INIT(&options);
    options.timezone = "Asia/Gaza";
    assert_int_equal(jsi_schedule_parse("@daily", &options, cache, &schedule), JOBSCHED_OK);
    jsi_zone_cache_free(cache);
    assert_string_equal(jobsched_schedule_zone(schedule), "Asia/Gaza");
    jobsched_schedule_free(schedule);
    jsi_zone_release(third);
}

struct counting {
    int allocations, live, fail_at;
};

static void *count_allocate(void *ctx, size_t size)
{
    struct counting *counting = ctx;
    if (++counting->allocations == counting->fail_at) {
        return NULL;
    }
    counting->live++;
    return malloc(size);
}

static void *count_reallocate(void *ctx, void *pointer, size_t size)
{
    (void)ctx;
    return realloc(pointer, size);
}

static void count_release(void *ctx, void *pointer)
{
    struct counting *counting = ctx;
    counting->live--;
    free(pointer);
}

static void test_each_failed_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    struct counting counting = {0, 0, 0};
    jobsched_allocator allocator;
    jobsched_schedule_options options;
    JOBSCHED_INIT(&allocator);
    JOBSCHED_INIT(&options);
    allocator.ctx = &counting;
    allocator.allocate = count_allocate;
    allocator.reallocate = count_reallocate;
    allocator.release = count_release;
    options.allocator = &allocator;
    options.zone_directory = JOBSCHED_TESTS_DATA "/zoneinfo-slim";
    int code = JOBSCHED_ENOMEM;
    int failures = 0;
    for (int at = 1; code != JOBSCHED_OK && at < 100; at++) {
        jobsched_schedule *schedule = NULL;
        struct jsi_zone_cache *cache = NULL;
        counting = (struct counting){0, 0, at};
        code = jsi_zone_cache_new(&allocator, options.zone_directory, &cache);
        if (code == JOBSCHED_OK) {
            code = jsi_schedule_parse("TZ=Europe/Dublin 30 1 * * *", &options, cache, &schedule);
        }
        if (code == JOBSCHED_OK) {
            int parsed = counting.allocations;
            assert_true(jobsched_schedule_next(schedule, 1711800000000) == 1711846800000);
            assert_int_equal(counting.allocations, parsed);
        } else {
            assert_int_equal(code, JOBSCHED_ENOMEM);
            failures++;
        }
        jobsched_schedule_free(schedule);
        jsi_zone_cache_free(cache);
        assert_int_equal(counting.live, 0);
    }
    assert_int_equal(code, JOBSCHED_OK);
    assert_true(failures >= 5);
}

int main(void)
{
    (void)jsi_alloc_init(&plain, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offsets_equal_the_c_librarys_in_every_zone),
        cmocka_unit_test(test_offsets_equal_the_c_librarys_in_the_fixtures),
        cmocka_unit_test(test_footers_equal_the_c_librarys),
        cmocka_unit_test(test_all_year_daylight_saving_has_one_offset),
        cmocka_unit_test(test_bad_footers_are_refused),
        cmocka_unit_test(test_damaged_files_are_refused_or_harmless),
        cmocka_unit_test(test_leap_second_files_are_refused),
        cmocka_unit_test(test_version_1_files_end),
        cmocka_unit_test(test_names_that_are_no_zones_are_refused),
        cmocka_unit_test(test_a_zone_tells_where_its_data_comes_from),
        cmocka_unit_test(test_missing_zone_data_says_what_to_install),
        cmocka_unit_test(test_the_process_zone_has_no_influence),
        cmocka_unit_test(test_a_cache_shares_and_reloads),
        cmocka_unit_test(test_each_failed_allocation_leaves_nothing_behind),
    };
    int failures = cmocka_run_group_tests_name("zones", tests, NULL, NULL);
    return failures != 0 ? 1 : 0;
}
