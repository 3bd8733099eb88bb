/* typed.h: comparisons of 64-bit numbers for cmocka, which compares as unsigned and prints hex.
 * Like every assertion of cmocka, on the test's own thread only. */
#ifndef SUPPORT_TYPED_H
#define SUPPORT_TYPED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static inline void typed_compare(int64_t left, int64_t right, const char *left_text,
                                 const char *right_text, const char *file, int line)
{
    if (left != right) {
        print_error("%s is %lld, but %s is %lld\n", left_text, (long long)left, right_text,
                    (long long)right);
        _fail(file, line);
    }
}

static inline void typed_order(int64_t left, int64_t right, const char *left_text,
                               const char *right_text, const char *file, int line)
{
    if (left > right) {
        print_error("%s is %lld, which is more than %s, which is %lld\n", left_text,
                    (long long)left, right_text, (long long)right);
        _fail(file, line);
    }
}

#define assert_equal(left, right)                                                                  \
    typed_compare((int64_t)(left), (int64_t)(right), #left, #right, __FILE__, __LINE__)
#define assert_at_most(left, right)                                                                \
    typed_order((int64_t)(left), (int64_t)(right), #left, #right, __FILE__, __LINE__)

/* A call that must fail with a code, and whose message must hold a text. */
#define assert_fails(call, expected_code, text)                                                    \
    do {                                                                                           \
        assert_equal((call), (expected_code));                                                     \
        assert_equal(jobsched_last_error()->code, (expected_code));                                \
        if (strstr(jobsched_last_error()->message, (text)) == NULL) {                              \
            print_error("'%s' is not in '%s'\n", (text), jobsched_last_error()->message);          \
            _fail(__FILE__, __LINE__);                                                             \
        }                                                                                          \
    } while (0)

#endif
