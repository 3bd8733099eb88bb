/* fuzz_url.c: any text as the URL of a lock, through the scheme and the drivers' own parsers; in
 * place of connections and files there are failures (linked with --wrap, see CMakeLists.txt).
 * Besides no fault: an error is one printable line, and nothing of a password is in it.
 * Input: a text, in which \001 stands for a password. */
#include "fuzz/backend.h"

#include "elected_crond/lock_url.h"

#include <jobsched.h>

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>

const jobsched_backend *jobsched_backend_redis(void);
const jobsched_backend *jobsched_backend_postgresql(void);
const jobsched_backend *jobsched_backend_sqlite(void);

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **out_found);
int __wrap_getaddrinfo_a(int mode, struct gaicb **list, int count, struct sigevent *event);
void *__wrap_PQconnectStartParams(const char *const *keywords, const char *const *values,
                                  int expand);
int __wrap_sqlite3_open_v2(const char *path, void **out_db, int flags, const char *vfs);
void *__wrap_dlopen(const char *path, int flags);

/* In two parts that no other text has, so that a cut one is found, too. */
static const char front[] = "Q7xZ", back[] = "p0w9";

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length)
{
    (void)fd;
    (void)address;
    (void)length;
    errno = ECONNREFUSED;
    return -1;
}

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **out_found)
{
    CHECK(host[0] != '\0' && port[0] != '\0' && hints != NULL && out_found != NULL);
    return EAI_NONAME;
}

int __wrap_getaddrinfo_a(int mode, struct gaicb **list, int count, struct sigevent *event)
{
    CHECK(mode == GAI_NOWAIT && count == 1 && list[0]->ar_name[0] != '\0' && event == NULL);
    return EAI_AGAIN;
}

void *__wrap_PQconnectStartParams(const char *const *keywords, const char *const *values,
                                  int expand)
{
    size_t count = 0;

    while (keywords[count] != NULL) {
        CHECK(values[count] != NULL);
        CHECK(strncmp(keywords[count], "jobsched", 8) != 0); /* ours are not libpq's */
        count++;
    }
    CHECK(!expand);
    return NULL;
}

int __wrap_sqlite3_open_v2(const char *path, void **out_db, int flags, const char *vfs)
{
    (void)flags;
    (void)vfs;
    CHECK(path[0] == '/'); /* neither ":memory:" nor a URI */
    *out_db = NULL;
    return 14; /* SQLITE_CANTOPEN */
}

void *__wrap_dlopen(const char *path, int flags)
{
    const char *name = strrchr(path, '/');

    (void)flags;
    name = name == NULL ? path : name + 1;
    CHECK(strncmp(name, "libjobsched-", 12) == 0);
    return NULL;
}

/* The text with the password in its places. */
static char *make_url(const struct fuzz_input *input)
{
    char *url = malloc(input->size * (sizeof front + sizeof back) + 1);
    size_t used = 0;

    CHECK(url != NULL);
    for (size_t i = 0; i < input->size && input->data[i] != '\0'; i++) {
        if (input->data[i] == 1) {
            memcpy(url + used, front, sizeof front - 1);
            memcpy(url + used + sizeof front - 1, back, sizeof back - 1);
            used += sizeof front + sizeof back - 2;
        } else {
            url[used++] = (char)input->data[i];
        }
    }
    url[used] = '\0';
    return url;
}

/* The fuzzer finds out what is compared, and writes it anywhere. */
static int has_its_own(const struct fuzz_input *input)
{
    return memmem(input->data, input->size, front, sizeof front - 1) != NULL ||
           memmem(input->data, input->size, back, sizeof back - 1) != NULL;
}

/* Whether there is no '@' behind "://...:", but what cannot be a port: all that follows is secret,
 * because '@' and the host may have been forgotten (unless there is one in front). */
static int lacks_host(const char *colon)
{
    size_t length = strcspn(colon + 1, ",/?"), digits = strspn(colon + 1, "0123456789");

    return strchr(colon, '@') == NULL && digits != length;
}

/* Whether all passwords are where passwords are: between "://...:" and the last '@' in front of the
 * options (behind a '?' only where that must be a part of the password), or as the value of the
 * parameter of that name; or where a port would be and '@' is missing. */
static int is_secret(const char *url)
{
    const char *begin = url + strcspn(url, ":/?@"), *end = memrchr(url, '@', strcspn(url, "?"));
    const char *colon =
        strncmp(begin, "://", 3) == 0 ? memchr(begin + 3, ':', strcspn(begin + 3, "?")) : NULL;

    const char *options = url + strcspn(url, "?");

    end = end == NULL ? strrchr(url, '@') : end;
    for (const char *at = strstr(url, front); at != NULL; at = strstr(at + 1, front)) {
        int user = colon != NULL && end != NULL && colon < at && at < end;
        int value = at - url > 10 && at > options &&
                    (strncmp(at - 10, "&password=", 10) == 0 ||
                     (at - 10 == options && strncmp(options, "?password=", 10) == 0));

        int lacking = colon != NULL && colon < at && begin[3] != '[' && end == NULL &&
                      colon < begin + 3 + strcspn(begin + 3, "/?") && lacks_host(colon);

        if (!user && !value && !lacking) {
            return 0;
        }
    }
    return strncmp(url, "sqlite:", 7) != 0; /* which has no passwords */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const jobsched_backend *drivers[4];
    const struct fuzz_input input = {data, size};
    jobsched_options options;
    jobsched *scheduler = NULL;
    char *url = make_url(&input);
    int secret = is_secret(url) && !has_its_own(&input);
    int code;

    drivers[0] = jobsched_backend_redis();
    drivers[1] = jobsched_backend_postgresql();
    drivers[2] = jobsched_backend_sqlite();
    JOBSCHED_INIT(&options);
    options.lock = url;
    options.backends = drivers;
    options.request_timeout_ms = 1;
    code = jobsched_open(&options, &scheduler);
    CHECK((code == JOBSCHED_OK) == (scheduler != NULL));
    if (code == JOBSCHED_OK) {
        CHECK(strncmp(url, "single:", 7) == 0);
        CHECK(jobsched_close(scheduler) == JOBSCHED_OK);
    } else {
        const char *message = jobsched_last_error()->message;

        fuzz_check_error(code);
        if (secret) {
            CHECK(strstr(message, front) == NULL && strstr(message, back) == NULL);
        }
    }
    if (secret) {
        char text[256];

        lock_url_redact(url, text, sizeof text);
        CHECK(strstr(text, front) == NULL && strstr(text, back) == NULL);
    }
    free(url);
    return 0;
}
