/* cluster.c: the way to a cluster. A URL may hold a password, so it is never shown, and one with a
 * password is refused on the command line, which every user of the machine can read. No locks. */
#include "ctl/cluster.h"

#include "ctl/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int hex_digit(char character)
{
    const char *digits = "0123456789abcdefABCDEF";
    const char *digit = character == '\0' ? NULL : strchr(digits, character);

    return digit == NULL ? -1 : (int)(digit - digits) - (digit - digits < 16 ? 0 : 6);
}

/* Whether the word stands here, also with bytes as %XX, which client libraries decode. */
static int stands_here(const char *text, const char *word)
{
    for (; *word != '\0'; word++, text++) {
        int high = *text == '%' ? hex_digit(text[1]) : -1;
        int low = high < 0 ? -1 : hex_digit(text[2]);

        if (low >= 0 ? high * 16 + low != *word : *text != *word) {
            return 0;
        }
        text += low >= 0 ? 2 : 0;
    }
    return 1;
}

/* Files have no passwords, and their names may be anything. */
static int is_file(const char *url)
{
    return strncmp(url, "sqlite:", 7) == 0 || strncmp(url, "single:", 7) == 0;
}

/* Whether these can be nothing but hosts, each with a port or not. Where '@host' was forgotten the
 * password stands in the place of the port. */
static int are_hosts(const char *text)
{
    const char *end = text + strcspn(text, "/?");

    while (text < end) {
        const char *next = text + strcspn(text, ",/?");
        const char *bracket = *text == '[' ? memchr(text, ']', (size_t)(next - text)) : NULL;
        const char *from = bracket == NULL ? text : bracket;
        const char *colon = memchr(from, ':', (size_t)(next - from));

        if (colon != NULL &&
            (next - colon > 6 || colon + 1 + strspn(colon + 1, "0123456789") < next)) {
            return 0;
        }
        text = next + (*next == ',');
    }
    return 1;
}

/* Client libraries do not agree on where a password with '/', '?', '#' or '@' in it ends, so whatever
 * one of them might take for one counts: behind a ':' and before '@', or where '@' is missing in the
 * place of the port; or what a parameter tells. examples/elected_crond has the same rule. */
static int has_password(const char *url)
{
    /* All that libpq keeps from lists of processes; "sslpassword" ends like the first. */
    static const char *const secrets[] = {
        "password=", "oauth_client_secret=", "scram_client_key=", "scram_server_key="};
    const char *user = strstr(url, "://");
    const char *host = strrchr(url, '@');

    if (is_file(url)) {
        return 0;
    }
    for (const char *at = url; *at != '\0'; at++) {
        for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++) {
            if (stands_here(at, secrets[i])) {
                return 1;
            }
        }
    }
    if (host == NULL) {
        return user != NULL && !are_hosts(user + 3);
    }
    user = user != NULL ? user + 3 : url;
    return host > user && memchr(user, ':', (size_t)(host - user)) != NULL;
}

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
    if (url != NULL && has_password(url)) {
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
