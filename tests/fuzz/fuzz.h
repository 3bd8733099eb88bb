/* fuzz.h: what every fuzz target has: the entry that libFuzzer and driver.c call, and a check that
 * ends the process, which both take for a finding. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* Numbers out of the input: a cursor that gives zeros behind its end. */
struct fuzz_input {
    const uint8_t *data;
    size_t size;
};

static inline uint8_t fuzz_byte(struct fuzz_input *input)
{
    if (input->size == 0) {
        return 0;
    }
    input->size--;
    return *input->data++;
}

/* The rest as a text ended by NUL, without one behind it that a sanitizer would not see; to be
 * released with free(). */
static inline char *fuzz_text(const struct fuzz_input *input)
{
    char *text = malloc(input->size + 1);

    CHECK(text != NULL);
    for (size_t i = 0; i < input->size; i++) {
        text[i] = (char)input->data[i];
    }
    text[input->size] = '\0';
    return text;
}

#endif
