/* cluster.c: the way to a cluster. A URL may hold a password, so it is never shown, and one with a
 * password is refused on the command line, which every user of the machine can read. No locks. */
#include "ctl/cluster.h"

#include "ctl/output.h"

#include "elected_crond/lock_url.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int read_file(const ctl_request *request, char out_url[CTL_URL_BYTES])
{
    FILE *file = fopen(request->lock_file, "re");
    size_t length;
    int failed;

    if (file == NULL) {
        return ctl_fail(request, "'%s' cannot be read: %s", request->lock_file, strerror(errno));
    }
    errno = 0;
    failed = fgets(out_url, CTL_URL_BYTES, file) == NULL;
    if (failed && ferror(file)) {
        (void)ctl_fail(request, "'%s' cannot be read: %s", request->lock_file, strerror(errno));
        (void)fclose(file);
        return CTL_FAILED;
    }
    (void)fclose(file);
    length = failed ? 0 : strcspn(out_url, "\r\n");
    if (length == CTL_URL_BYTES - 1) {
        return ctl_usage(request, "the first line of '%s' is longer than %d bytes",
                         request->lock_file, CTL_URL_BYTES - 2);
    }
    out_url[length] = '\0';
    return length > 0 ? CTL_OK
                      : ctl_usage(request, "the first line of '%s' is empty", request->lock_file);
}

int ctl_cluster_url(const ctl_request *request, char out_url[CTL_URL_BYTES])
{
    const char *url = request->lock;

    if (request->lock != NULL && request->lock_file != NULL) {
        return ctl_usage(request, "either --lock or --lock-file, not both");
    }
    if (request->lock_file != NULL) {
        return read_file(request, out_url);
    }
    if (url != NULL && lock_url_may_hold_password(url)) {
        return ctl_usage(request, "a password on the command line can be read by everybody on this "
                                  "machine; put the URL into JOBSCHED_LOCK or a --lock-file");
    }
    url = url != NULL ? url : getenv("JOBSCHED_LOCK");
    if (url == NULL || url[0] == '\0') {
        return ctl_usage(request, "no lock backend: give --lock URL, --lock-file FILE or "
                                  "JOBSCHED_LOCK");
    }
    if (strlen(url) >= CTL_URL_BYTES) {
        return ctl_usage(request, "the lock URL is longer than %d bytes", CTL_URL_BYTES - 1);
    }
    memcpy(out_url, url, strlen(url) + 1);
    return CTL_OK;
}

int ctl_cluster_is_single(const char *url)
{
    return strncmp(url, "single:", 7) == 0;
}

int ctl_cluster_open_url(const ctl_request *request, const char *url, int migrates,
                         jobsched **out_cluster)
{
    static const char *const settings[][2] = {{"request_timeout", "JOBSCHED_REQUEST_TIMEOUT"},
                                              {"lease", "JOBSCHED_LEASE"}};
    jobsched_options options;
    int code = JOBSCHED_OK;

    JOBSCHED_INIT(&options);
    options.lock = url;
    options.name_space =
        request->name_space != NULL ? request->name_space : getenv("JOBSCHED_NAMESPACE");
    options.app_version = "jobschedctl " JOBSCHED_VERSION;
    options.control_only = !migrates;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0] && code == JOBSCHED_OK; i++) {
        const char *value = getenv(settings[i][1]);

        code = value == NULL ? JOBSCHED_OK : jobsched_set(&options, settings[i][0], value);
    }
    return code != JOBSCHED_OK ? code : jobsched_open(&options, out_cluster);
}

int ctl_cluster_open(const ctl_request *request, jobsched **out_cluster)
{
    char url[CTL_URL_BYTES];
    int result = ctl_cluster_url(request, url);

    if (result != CTL_OK) {
        return result;
    }
    if (ctl_cluster_is_single(url)) {
        (void)ctl_fail(request, "'single:' lies within one process: there is nothing to see or do "
                                "from outside");
        return CTL_REFUSED;
    }
    return ctl_cluster_open_url(request, url, 0, out_cluster) == JOBSCHED_OK ? CTL_OK
                                                                             : ctl_library(request);
}

int ctl_cluster_watch(const ctl_request *request,
                      int (*show)(const ctl_request *request, jobsched *cluster))
{
    struct timespec pause = {.tv_sec = (time_t)(request->watch_ms / 1000),
                             .tv_nsec = (long)(request->watch_ms % 1000) * 1000000};
    int clears = request->watch_ms > 0 && !request->json && ctl_is_terminal(stdout);
    jobsched *cluster = NULL;
    int result = ctl_cluster_open(request, &cluster);

    while (result == CTL_OK) {
        if (clears) {
            (void)fputs("\033[H\033[2J", stdout);
        }
        result = show(request, cluster);
        if (request->watch_ms == 0 || fflush(stdout) != 0) {
            break;
        }
        (void)nanosleep(&pause, NULL);
    }
    (void)jobsched_close(cluster);
    return result;
}
