/* The queue of instants (due.c) against a naive model (G1, G11): random arming, disarming and
 * taking give the same order as a plain array that is searched from end to end, and arming never
 * needs memory beyond what was reserved. */
#include "support/test_memory.h"
#include "support/typed.h"

#include "engine/due.h"

#include "base/hash.h"

enum { ENTRIES = 300, OPERATIONS = 60000 };

struct model_entry {
    jsi_due_entry entry;
    bool armed;
    int64_t at_ms;
    uint64_t order; /* of arming */
};

static uint64_t random_next(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return jsi_mix64(*state);
}

static struct model_entry *model_first(struct model_entry *all, size_t count)
{
    struct model_entry *first = NULL;
    for (size_t i = 0; i < count; i++) {
        if (all[i].armed && (first == NULL || all[i].at_ms < first->at_ms ||
                             (all[i].at_ms == first->at_ms && all[i].order < first->order))) {
            first = &all[i];
        }
    }
    return first;
}

static void test_random_operations_match_model(void **state)
{
    (void)state;
    struct test_memory memory;
    test_memory_init(&memory);
    jobsched_allocator allocator = test_memory_allocator(&memory);
    static struct model_entry all[ENTRIES];
    memset(all, 0, sizeof all);
    jsi_due due = {0};
    uint64_t seed = 20270115, order = 0;
    size_t count = 1;
    assert_equal(jsi_due_reserve(&due, &allocator, count), 0);
    for (int step = 0; step < OPERATIONS; step++) {
        if (count < ENTRIES && step % 50 == 0) {
            count++; /* grows while entries are armed */
            assert_equal(jsi_due_reserve(&due, &allocator, count), 0);
        }
        int64_t before = memory.asked;
        uint64_t dice = random_next(&seed);
        struct model_entry *chosen = &all[random_next(&seed) % count];
        if (dice % 8 < 4) {
            /* Few instants, so that they are shared; some are negative. */
            int64_t at_ms = (int64_t)(random_next(&seed) % 40) * 1000 - 5000;
            if (!chosen->armed) {
                jsi_due_arm(&due, &chosen->entry, at_ms);
                chosen->armed = true;
                chosen->at_ms = at_ms;
                chosen->order = ++order;
            }
        } else if (dice % 8 < 6) {
            jsi_due_disarm(&due, &chosen->entry);
            chosen->armed = false;
        } else {
            int64_t now_ms = (int64_t)(random_next(&seed) % 40) * 1000 - 5000;
            struct model_entry *first = model_first(all, count);
            bool is_due = first != NULL && first->at_ms <= now_ms;
            jsi_due_entry *taken = jsi_due_take(&due, now_ms);
            assert_ptr_equal(taken, is_due ? &first->entry : NULL);
            if (is_due) {
                first->armed = false;
            }
        }
        const struct model_entry *first = model_first(all, count);
        assert_equal(jsi_due_next(&due), first == NULL ? JOBSCHED_NONE : first->at_ms);
        assert_equal(memory.asked, before);
    }
    jsi_due_fini(&due, &allocator);
    assert_equal(memory.live, 0);
}

/* G11: a reservation that fails leaves the queue as it was. */
static void test_failed_reservation_changes_nothing(void **state)
{
    (void)state;
    struct test_memory memory;
    test_memory_init(&memory);
    jobsched_allocator allocator = test_memory_allocator(&memory);
    jsi_due due = {0};
    struct model_entry all[16] = {0};
    assert_equal(jsi_due_reserve(&due, &allocator, 16), 0);
    for (int i = 0; i < 16; i++) {
        jsi_due_arm(&due, &all[i].entry, 1000 * (16 - i));
    }
    for (int64_t failing = 0; failing < 3; failing++) {
        atomic_store(&memory.fail_at, atomic_load(&memory.asked) + failing);
        assert_equal(jsi_due_reserve(&due, &allocator, 17), JOBSCHED_ENOMEM);
        assert_equal(jsi_due_next(&due), 1000);
        assert_equal(memory.live, 3);
    }
    atomic_store(&memory.fail_at, -1);
    assert_equal(jsi_due_reserve(&due, &allocator, 17), 0);
    for (int i = 15; i >= 0; i--) {
        assert_ptr_equal(jsi_due_take(&due, INT64_MAX - 1), &all[i].entry);
    }
    assert_null(jsi_due_take(&due, INT64_MAX - 1));
    jsi_due_fini(&due, &allocator);
    assert_equal(memory.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_operations_match_model),
        cmocka_unit_test(test_failed_reservation_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
