/* conformance_main.c: runs the conformance suite against one backend.
 *   conformance --backend single|sqlite|/path/to/libjobsched-x.so --url URL
 *               [--bad-url URL]... [--filter PATTERN] [--race N] [--death-bound MS]
 * In the URL, {dir} becomes a directory that is made for the run and removed after it, and
 * {n} a number that is another for every test. */
#include "conformance.h"

#include <dlfcn.h>
#include <ftw.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BAD_URLS_MAX 32

struct program {
    const char *backend, *url;
    const char *bad_urls[BAD_URLS_MAX + 1];
    size_t bad_url_count;
    char directory[64]; /* "" until {dir} is seen */
    unsigned made;
};

/* What no backend of that scheme may accept. Others are given with --bad-url. */
static const struct {
    const char *scheme, *url;
} known_bad_urls[] = {
    {"single", "single:x"},
    {"single", "single:/"},
    {"single", "single:///"},
    {"single", "single://host/path"},
    {"single", "single:?a=b"},
    {"sqlite", "sqlite:"},
    {"sqlite", "sqlite:{dir}/x.db?no-such-setting=1"},
};

static int usage(const char *problem, const char *detail)
{
    (void)fprintf(stderr,
                  "conformance: %s%s\n"
                  "usage: conformance --backend single|sqlite|/path/to/libjobsched-x.so --url URL\n"
                  "                   [--bad-url URL]... [--filter PATTERN] [--race N]\n"
                  "                   [--death-bound MS]\n",
                  problem, detail);
    return 2;
}

static int append(char *out, size_t bytes, size_t *length, const char *text, size_t text_bytes)
{
    if (*length + text_bytes >= bytes) {
        return -1;
    }
    memcpy(out + *length, text, text_bytes);
    *length += text_bytes;
    out[*length] = '\0';
    return 0;
}

static int append_directory(struct program *program, char *out, size_t bytes, size_t *length)
{
    if (program->directory[0] == '\0') {
        (void)snprintf(program->directory, sizeof program->directory, "/tmp/conformance-XXXXXX");
        if (mkdtemp(program->directory) == NULL) {
            perror("conformance: mkdtemp");
            program->directory[0] = '\0';
            return -1;
        }
    }
    return append(out, bytes, length, program->directory, strlen(program->directory));
}

static int expand(struct program *program, const char *url, char *out, size_t bytes)
{
    size_t length = 0;
    int code = append(out, bytes, &length, "", 0);
    while (*url != '\0' && code == 0) {
        if (strncmp(url, "{dir}", 5) == 0) {
            code = append_directory(program, out, bytes, &length);
            url += 5;
        } else if (strncmp(url, "{n}", 3) == 0) {
            char number[16];
            (void)snprintf(number, sizeof number, "%u", program->made);
            code = append(out, bytes, &length, number, strlen(number));
            url += 3;
        } else {
            code = append(out, bytes, &length, url++, 1);
        }
    }
    return code;
}

static int make_url(void *data, char *out_url, size_t out_bytes)
{
    struct program *program = data;
    program->made++;
    return expand(program, program->url, out_url, out_bytes);
}

/* The library is never unloaded, so that leak checkers can name its functions. */
static const jobsched_backend *load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        (void)fprintf(stderr, "conformance: %s\n", dlerror());
        return NULL;
    }
    /* libjobsched-some-x.so.0 exports jobsched_backend_some_x. */
    const char *base = strrchr(path, '/') == NULL ? path : strrchr(path, '/') + 1;
    static const char prefix[] = "libjobsched-";
    base += strncmp(base, prefix, sizeof prefix - 1) == 0 ? sizeof prefix - 1 : 0;
    char symbol[256];
    int length =
        snprintf(symbol, sizeof symbol, "jobsched_backend_%.*s", (int)strcspn(base, "."), base);
    if (length < 0 || (size_t)length >= sizeof symbol) {
        (void)fprintf(stderr, "conformance: the name of '%s' is too long\n", path);
        return NULL;
    }
    for (char *at = symbol; *at != '\0'; at++) {
        *at = *at == '-' || *at == '+' ? '_' : *at;
    }
    const jobsched_backend *(*get)(void) = NULL;
    void *address = dlsym(library, symbol);
    if (address == NULL) {
        (void)fprintf(stderr, "conformance: '%s' does not export '%s'\n", path, symbol);
        return NULL;
    }
    memcpy(&get, &address, sizeof get); /* ISO C has no cast from void * to a function */
    return get();
}

static const jobsched_backend *find_driver(const char *name)
{
    if (strcmp(name, "single") == 0) {
        return jobsched_backend_single();
    }
    if (strchr(name, '/') != NULL || strstr(name, ".so") != NULL) {
        return load(name);
    }
    char library[128];
    (void)snprintf(library, sizeof library, "libjobsched-%s.so", name);
    return load(library);
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *ftw)
{
    (void)status;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static int gather_bad_urls(struct program *program, const char *scheme, char (*texts)[256])
{
    for (size_t i = 0; i < sizeof known_bad_urls / sizeof known_bad_urls[0]; i++) {
        if (strcmp(known_bad_urls[i].scheme, scheme) == 0 &&
            program->bad_url_count < BAD_URLS_MAX) {
            program->bad_urls[program->bad_url_count++] = known_bad_urls[i].url;
        }
    }
    for (size_t i = 0; i < program->bad_url_count; i++) {
        if (expand(program, program->bad_urls[i], texts[i], sizeof texts[i]) != 0) {
            return -1;
        }
        program->bad_urls[i] = texts[i];
    }
    return 0;
}

static int parse(int argc, char **argv, struct program *program,
                 jobsched_conformance_subject *subject)
{
    static const struct option options[] = {{"backend", required_argument, NULL, 'b'},
                                            {"url", required_argument, NULL, 'u'},
                                            {"bad-url", required_argument, NULL, 'x'},
                                            {"filter", required_argument, NULL, 'f'},
                                            {"race", required_argument, NULL, 'r'},
                                            {"death-bound", required_argument, NULL, 'd'},
                                            {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'b':
            program->backend = optarg;
            break;
        case 'u':
            program->url = optarg;
            break;
        case 'x':
            if (program->bad_url_count == BAD_URLS_MAX) {
                return usage("too many bad URLs", "");
            }
            program->bad_urls[program->bad_url_count++] = optarg;
            break;
        case 'f':
            subject->filter = optarg;
            break;
        case 'r':
            subject->race_occurrences = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'd':
            subject->death_bound_ms =
                strcmp(optarg, "none") == 0 ? JOBSCHED_NONE : (int64_t)strtoll(optarg, NULL, 10);
            break;
        default:
            return usage("see above", "");
        }
    }
    if (optind != argc) {
        return usage("unexpected argument ", argv[optind]);
    }
    return program->backend == NULL || program->url == NULL
               ? usage("--backend and --url are needed", "")
               : 0;
}

int main(int argc, char **argv)
{
    static struct program program;
    static char bad_url_texts[BAD_URLS_MAX][256];
    jobsched_conformance_subject subject = {.make_url = make_url, .data = &program};
    int code = parse(argc, argv, &program, &subject);
    if (code != 0) {
        return code;
    }
    subject.driver = find_driver(program.backend);
    if (subject.driver == NULL) {
        return 2;
    }
    if (gather_bad_urls(&program, subject.driver->scheme, bad_url_texts) != 0) {
        return usage("a URL is too long, or there is no room in /tmp", "");
    }
    subject.bad_urls = program.bad_urls;
    int failures = jobsched_conformance_run(&subject);
    if (program.directory[0] != '\0') {
        (void)nftw(program.directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
    return failures != 0 ? 1 : 0;
}
