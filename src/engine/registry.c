/* registry.c: from a URL's scheme to a driver. Built in, then given by the host, then loaded
 * as a sibling library. No process-wide table: what the host gives comes with its options.
 * Messages show the scheme only, and not even that where it could be something else. */
#include "engine/internal.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

enum { SCHEME_BYTES = 32 };

#define TEXT_OF_(number) #number
#define TEXT_OF(number)  TEXT_OF_(number)
/* As the build names the libraries: until 1.0 a minor version may change the ABI. */
#define JOBSCHED_SONAME_ENDING                                                                     \
    "." TEXT_OF(JOBSCHED_VERSION_MAJOR) "." TEXT_OF(JOBSCHED_VERSION_MINOR)

#define EXAMPLES                                                                                   \
    "'single:', 'sqlite:/path/to/file.db', 'postgresql://user@host/database' or 'redis://host'"

/* The schemes of the drivers that ship, and others that one of them takes besides its own: it sees
 * the URL as it was written. */
static const char *const known[][2] = {
    {"single", "single"},        {"sqlite", "sqlite"}, {"postgresql", "postgresql"},
    {"postgres", "postgresql"},  {"redis", "redis"},   {"rediss", "redis"},
    {"redis+sentinel", "redis"},
};
enum { KNOWN_COUNT = sizeof known / sizeof known[0] };

static int fail_letter(const char *url, size_t length, size_t at)
{
    for (size_t i = 0; i < KNOWN_COUNT; i++) {
        if (strlen(known[i][0]) == length && strncasecmp(url, known[i][0], length) == 0) {
            return jsi_fail_at(JOBSCHED_EINVAL, "lock", (int64_t)at,
                               "lock URL scheme has an upper-case letter at byte %zu; write it in "
                               "lower case: '%s:'",
                               at, known[i][0]);
        }
    }
    return jsi_fail_at(JOBSCHED_EINVAL, "lock", (int64_t)at,
                       "lock URL scheme has a character that is not a lower-case letter, digit, "
                       "'+' or '-' at byte %zu; expected for example " EXAMPLES,
                       at);
}

/* The scheme, checked to be harmless as a part of a file name. */
static int scheme_of(const char *url, char *out_scheme)
{
    size_t length = strcspn(url, ":");
    if (url[length] != ':' || length == 0 || length >= SCHEME_BYTES) {
        return jsi_fail_at(JOBSCHED_EINVAL, "lock", 0,
                           "lock URL has no scheme; expected for example " EXAMPLES);
    }
    for (size_t i = 0; i < length; i++) {
        bool letter = url[i] >= 'a' && url[i] <= 'z';
        bool other = (url[i] >= '0' && url[i] <= '9') || url[i] == '+' || url[i] == '-';
        if (!letter && (i == 0 || !other)) {
            return fail_letter(url, length, i);
        }
    }
    memcpy(out_scheme, url, length);
    out_scheme[length] = '\0';
    return JOBSCHED_OK;
}

static int check_driver(const jobsched_backend *driver, const char *scheme)
{
    if (driver->abi != JOBSCHED_BACKEND_ABI) {
        return jobsched_fail(JOBSCHED_ENOBACKEND, 0,
                             "backend '%s' was built for contract %u, this library has %d", scheme,
                             driver->abi, JOBSCHED_BACKEND_ABI);
    }
    if (driver->scheme == NULL || driver->open == NULL || driver->close == NULL ||
        driver->announce == NULL || driver->claim == NULL || driver->finish == NULL ||
        driver->renew == NULL || driver->reap == NULL || driver->control == NULL ||
        driver->runs == NULL) {
        return jobsched_fail(JOBSCHED_ENOBACKEND, 0,
                             "backend '%s' lacks its scheme or an operation that is required",
                             scheme);
    }
    return JOBSCHED_OK;
}

static void *load(const char *path)
{
    /* NODELETE: threads and exit handlers of a client library may outlive the last handle. */
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

/* Its address tells where this code was loaded from; a function's would need a cast that ISO C does
 * not define. */
static const char here = 0;

/* The versioned name comes first: it is the one that a package for running programs has. */
static const char *const endings[] = {JOBSCHED_SONAME_ENDING, ""};
enum { ENDINGS = sizeof endings / sizeof endings[0] };

/* Looks in the folder of the library (or program) that holds this code. A file that is there but
 * cannot be loaded ends the search, so that dlerror() tells of it. */
static void *load_sibling(const char *scheme, bool *out_is_there)
{
    char path[PATH_MAX];
    int folder_bytes = 0;
    Dl_info self;
    if (dladdr(&here, &self) != 0 && self.dli_fname != NULL) {
        const char *slash = strrchr(self.dli_fname, '/');
        folder_bytes = slash == NULL ? 0 : (int)(slash - self.dli_fname) + 1;
    }
    for (size_t i = 0; folder_bytes > 0 && i < ENDINGS; i++) {
        int wanted = snprintf(path, sizeof path, "%.*slibjobsched-%s.so%s", folder_bytes,
                              self.dli_fname, scheme, endings[i]);
        if (wanted > 0 && (size_t)wanted < sizeof path && access(path, F_OK) == 0) {
            *out_is_there = true;
            return load(path);
        }
    }
    *out_is_there = false;
    return NULL;
}

/* Whether the library's jobsched is this one. A program that was linked with the archive has another
 * than a driver that was linked with the shared library, and would not see its errors. */
static bool shares_core(void *library)
{
    const void *theirs = dlsym(library, "jobsched_fail");
    Dl_info self;
    Dl_info other;
    return theirs == NULL || dladdr(theirs, &other) == 0 || dladdr(&here, &self) == 0 ||
           other.dli_fbase == self.dli_fbase;
}

/* The loader says "NAME: ..." where there is no such file, and names a path, or another file, where
 * there is one that it cannot use. */
static bool is_there(const char *why, const char *name)
{
    const char *at = why == NULL ? NULL : strstr(why, name);
    return why != NULL && (at == NULL || (at > why && at[-1] == '/'));
}

/* Why there is no library: most often its name is no backend's, but that of a host, a user or
 * another product, so that installing it would be no advice. */
static int fail_no_library(const char *url, const char *scheme, const char *why)
{
    for (size_t i = 0; i < KNOWN_COUNT; i++) {
        if (strcmp(known[i][1], scheme) == 0) {
            return jobsched_fail(JOBSCHED_ENOBACKEND, 0,
                                 "no backend for scheme '%s': install libjobsched-%s.so beside "
                                 "libjobsched.so, or give its driver in options.backends (%s)",
                                 scheme, scheme, why == NULL ? "not found" : why);
        }
    }
    const char *rest = url + strlen(scheme);
    if (strcmp(scheme, "unix") == 0 || strncmp(scheme, "redis+", 6) == 0) {
        return jobsched_fail(JOBSCHED_ENOBACKEND, 0,
                             "no backend for scheme '%s'; the socket of a Redis server is named as "
                             "'redis://?socket=/path'",
                             scheme);
    }
    if (strncmp(rest, "://", 3) != 0 && strchr(rest, '@') != NULL) {
        /* As "user:password@host": whatever is in front of the ':' is not shown. */
        return jobsched_fail(JOBSCHED_ENOBACKEND, 0,
                             "no backend for the lock URL; is the scheme missing in front of it? "
                             "Expected for example " EXAMPLES);
    }
    return jobsched_fail(JOBSCHED_ENOBACKEND, 0,
                         "no backend for scheme '%s'; is the scheme missing in front of it? "
                         "Expected for example " EXAMPLES "; one from outside would be "
                         "libjobsched-%s.so beside libjobsched.so, or in options.backends",
                         scheme, scheme);
}

static int fail_load(const char *scheme, const char *why)
{
    /* Most often its client library is missing, which the loader names. */
    return jobsched_fail(JOBSCHED_ENOBACKEND, 0,
                         "backend 'libjobsched-%s.so' cannot be loaded; install what it needs: %s",
                         scheme, why == NULL ? "unknown" : why);
}

static int load_from_path(const char *url, const char *scheme, void **out_library)
{
    char name[SCHEME_BYTES + 64];
    const char *why = NULL;
    for (size_t i = 0; i < ENDINGS; i++) {
        (void)snprintf(name, sizeof name, "libjobsched-%s.so%s", scheme, endings[i]);
        void *library = load(name);
        if (library != NULL && shares_core(library)) {
            *out_library = library;
            return JOBSCHED_OK;
        }
        if (library != NULL) {
            (void)dlclose(library);
            return jobsched_fail(JOBSCHED_ENOBACKEND, 0,
                                 "backend '%s' was found, but belongs to a shared libjobsched, and "
                                 "this program has its own; give its driver in options.backends",
                                 name);
        }
        why = dlerror();
        if (is_there(why, name)) {
            return fail_load(scheme, why);
        }
    }
    return fail_no_library(url, scheme, why);
}

typedef const jobsched_backend *(*driver_fn)(void);

static int load_driver(const char *url, const char *scheme, const jobsched_backend **out_driver,
                       void **out_library)
{
    bool found;
    void *library = load_sibling(scheme, &found);
    int failed = JOBSCHED_OK;
    if (library == NULL) {
        failed = found ? fail_load(scheme, dlerror()) : load_from_path(url, scheme, &library);
    }
    if (failed != 0 || library == NULL) {
        return failed;
    }
    char symbol[SCHEME_BYTES + 32];
    (void)snprintf(symbol, sizeof symbol, "jobsched_backend_%s", scheme);
    for (char *at = symbol; *at != '\0'; at++) {
        if (*at == '+' || *at == '-') {
            *at = '_';
        }
    }
    /* POSIX promises that the bits of dlsym's result are a function pointer's. */
    void *address = dlsym(library, symbol);
    driver_fn function = NULL;
    memcpy(&function, &address, sizeof function);
    if (address == NULL) {
        (void)dlclose(library);
        return jobsched_fail(JOBSCHED_ENOBACKEND, 0, "libjobsched-%s.so does not export '%s'",
                             scheme, symbol);
    }
    const jobsched_backend *driver = function();
    failed = check_driver(driver, scheme);
    if (failed != 0) {
        (void)dlclose(library);
        return failed;
    }
    *out_driver = driver;
    *out_library = library;
    return JOBSCHED_OK;
}

int jsi_registry_find(const char *url, const jobsched_backend *const *given,
                      const jobsched_backend **out_driver, void **out_library)
{
    char scheme[SCHEME_BYTES];
    int failed = scheme_of(url, scheme);
    if (failed != 0) {
        return failed;
    }
    for (size_t i = 0; i < KNOWN_COUNT; i++) {
        if (strcmp(scheme, known[i][0]) == 0) {
            (void)snprintf(scheme, sizeof scheme, "%s", known[i][1]);
            break;
        }
    }
    const jobsched_backend *found = NULL;
    if (strcmp(scheme, "single") == 0) {
        found = jobsched_backend_single();
    }
    for (size_t i = 0; found == NULL && given != NULL && given[i] != NULL; i++) {
        if (strcmp(given[i]->scheme, scheme) == 0) {
            found = given[i];
        }
    }
    if (found == NULL) {
        return load_driver(url, scheme, out_driver, out_library);
    }
    failed = check_driver(found, scheme);
    if (failed == 0) {
        *out_driver = found;
        *out_library = NULL;
    }
    return failed;
}

void jsi_registry_close(void *library)
{
    if (library != NULL) {
        (void)dlclose(library);
    }
}
