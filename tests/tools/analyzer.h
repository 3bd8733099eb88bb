/* analyzer.h: included before every file that clang-tidy reads. Tells the analyzer, which sees one
 * file at a time, that the functions which record a failure never return 0; else it follows paths
 * on which a refusal counts as success. Functions whose code is an argument return just that. Not
 * for the files that define these functions. */
#ifndef JOBSCHED_TESTS_ANALYZER_H
#define JOBSCHED_TESTS_ANALYZER_H

#include <jobsched/backend.h>
#if __has_include("base/error.h")
#include "base/error.h"
#include "schedule/syntax.h"
#endif

#define jobsched_fail(code, ...)   (jobsched_fail(code, __VA_ARGS__), (code))
#define jsi_fail_at(code, ...)     (jsi_fail_at(code, __VA_ARGS__), (code))
#define jsi_fail_range(code, ...)  (jsi_fail_range(code, __VA_ARGS__), (code))
#define jsi_syntax_fail(...)       (jsi_syntax_fail(__VA_ARGS__), JOBSCHED_EPARSE)
#define jsi_syntax_fail_range(...) (jsi_syntax_fail_range(__VA_ARGS__), JOBSCHED_EPARSE)
#define jsi_syntax_fail_hint(...)  (jsi_syntax_fail_hint(__VA_ARGS__), JOBSCHED_EPARSE)

#endif
