/* conformance.h: one suite for every backend. Public headers only, so that the author of a
 * backend outside this project can link it or run the program `conformance`.
 * docs/backends.md tells how. */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include <jobsched.h>
#include <jobsched/backend.h>

#define JOBSCHED_CONFORMANCE_URL_BYTES 1024

typedef struct jobsched_conformance_subject {
    const jobsched_backend *driver;

    /* Required. Writes the URL of the store for the next test. It may be the same each
     * time: every test uses namespaces of its own. Returns 0, or anything else to fail. */
    int (*make_url)(void *data, char *out_url, size_t out_bytes);
    void *data;

    /* URLs that open() must refuse with EINVAL, ended by NULL; NULL: none. */
    const char *const *bad_urls;

    /* How long after a kill -9 of the owner the job may stay held (CLUSTER), when its lease
     * is much longer. 0: 5 s. JOBSCHED_NONE: the backend has no proof of death and waits for
     * the lease, and the tests of kill -9 move their clock. */
    int64_t death_bound_ms;

    /* Occurrences of each job that processes race for (CLUSTER); 0: 300. */
    uint32_t race_occurrences;

    /* Only tests whose names match this pattern ('*' and '?'); NULL: all. */
    const char *filter;
} jobsched_conformance_subject;

/* Runs every test that the driver's capabilities call for. Returns how many failed. Forks
 * (CLUSTER), so no other threads may run meanwhile. */
int jobsched_conformance_run(const jobsched_conformance_subject *subject);

#endif
