/* driver.c: runs a fuzz target without a fuzzer over the files in the folders that it is given, each
 * as it is, each of its prefixes, and each with every byte changed in a few ways. So the kept corpus
 * is an ordinary test with any compiler. */
#include "fuzz/fuzz.h"

#include <dirent.h>
#include <string.h>

#ifndef FUZZ_SAMPLE
#define FUZZ_SAMPLE 400
#endif

enum { FILE_BYTES_MAX = 65536, MUTATED_BYTES_MAX = FUZZ_SAMPLE };

static size_t runs;

/* In a block of exactly its size, so that reading one byte too many is seen. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size == 0 ? 1 : size);

    CHECK(copy != NULL);
    memcpy(copy, data, size);
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    runs++;
}

static void run_variants(uint8_t *data, size_t size)
{
    static const uint8_t put[] = {0x00, ' ', '*', '-', '9', 0xff};
    /* Long inputs are sampled, or their variants would take the square of their length. */
    size_t stride = size <= MUTATED_BYTES_MAX ? 1 : size / MUTATED_BYTES_MAX + 1;

    run(data, size);
    for (size_t at = 0; at < size; at += stride) {
        uint8_t kept = data[at];

        run(data, at);
        for (size_t i = 0; i < sizeof put; i++) {
            data[at] = put[i];
            run(data, size);
        }
        data[at] = kept ^ 1;
        run(data, size);
        data[at] = kept;
    }
}

static void run_file(const char *path)
{
    static uint8_t data[FILE_BYTES_MAX];
    FILE *file = fopen(path, "rb");
    size_t size;

    CHECK(file != NULL);
    size = fread(data, 1, sizeof data, file);
    (void)fclose(file);
    (void)fprintf(stderr, "%s: %zu bytes\n", path, size);
    run_variants(data, size);
}

static int run_folder(const char *path)
{
    DIR *folder = opendir(path);
    int files = 0;

    CHECK(folder != NULL);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char name[4096];

        if (entry->d_name[0] != '.') {
            (void)snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
            run_file(name);
            files++;
        }
    }
    (void)closedir(folder);
    return files;
}

int main(int argc, char **argv)
{
    int files = 0;

    for (int i = 1; i < argc; i++) {
        files += run_folder(argv[i]);
    }
    (void)printf("%d files, %zu runs\n", files, runs);
    return files > 0 ? 0 : 1;
}
