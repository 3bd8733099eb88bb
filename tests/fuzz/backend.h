/* backend.h: every operation of a backend, called with whatever its server says. The targets of the
 * backends bring the server: a script of replies that is the rest of the input. */
#ifndef TESTS_FUZZ_BACKEND_H
#define TESTS_FUZZ_BACKEND_H

#include "fuzz/fuzz.h"

#include <jobsched/backend.h>

/* Opens the URL, calls the operations that the input names, and closes. Returns whether it could be
 * opened. What any reply must leave true is checked: known codes, errors of one printable line,
 * strings where there must be some, and no more visits than were asked for. */
int fuzz_backend(const jobsched_backend *driver, const char *url, struct fuzz_input *input);

/* The first block of memory that the backend under test took: its store. */
extern const void *fuzz_store;

/* Lets time pass on the clock that the backend has. */
void fuzz_pass_ms(int64_t span_ms);

/* One recorded error: its code, and one line without a control character. */
void fuzz_check_error(int code);

/* The next part of the rest of the input, up to a byte that separates them. 0: there is none. */
int fuzz_part(struct fuzz_input *input, struct fuzz_input *out_part);

enum { FUZZ_SEPARATOR = 0xf5, FUZZ_OPERATIONS = 6 };

#endif
