/* redis_support.c: see redis_support.h. */
#include "redis_support.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

const jobsched_backend *jobsched_backend_redis(void);

char redis_directory[64];
int redis_notice_count;
char redis_notices[4096];

static int make_url(void *data, char *out_url, size_t out_bytes)
{
    (void)data;
    (void)snprintf(out_url, out_bytes, "redis://?socket=%s/redis.sock", redis_directory);
    return 0;
}

int redis_script(const char *command, const char *directory, const char *settings)
{
    char line[REDIS_TEXT_BYTES];
    (void)snprintf(line, sizeof line, "sh '%s' %s '%s' %s", REDIS_SCRIPT, command, directory,
                   settings);
    return system(line);
}

void redis_restart(const char *how, const char *settings)
{
    cf_equal(redis_script(how, redis_directory, ""), 0);
    cf_equal(redis_script("start", redis_directory, settings), 0);
}

int redis_set_up(void **state)
{
    static jobsched_conformance_subject subject = {.make_url = make_url,
                                                   .death_bound_ms = JOBSCHED_NONE};
    subject.driver = jobsched_backend_redis();
    redis_notice_count = 0;
    redis_notices[0] = '\0';
    (void)snprintf(redis_directory, sizeof redis_directory, "/tmp/test-redis-XXXXXX");
    if (mkdtemp(redis_directory) == NULL || redis_script("start", redis_directory, "") != 0) {
        return -1;
    }
    return cf_setup(state, &subject);
}

int redis_tear_down(void **state)
{
    int result = cf_teardown(state);
    return redis_script("remove", redis_directory, "") == 0 ? result : -1;
}

static void keep_notice(void *notice_data, int kind, const char *message)
{
    (void)notice_data;
    redis_notice_count++;
    size_t used = strlen(redis_notices);
    (void)snprintf(redis_notices + used, sizeof redis_notices - used, "%s: %s\n",
                   jobsched_event_name(kind), message);
}

struct cf_node *redis_open_at(struct cf_world *world, const char *name, const char *url,
                              int64_t lease_ms, int64_t timeout_ms)
{
    struct cf_node *node = calloc(1, sizeof *node);
    cf_true(node != NULL);
    cf_config(node, world, name, NULL);
    (void)snprintf(node->url, sizeof node->url, "%s", url);
    node->config.lease_ms = lease_ms;
    node->config.request_timeout_ms = timeout_ms;
    node->config.notice = keep_notice;
    cf_ok(node->driver->open(&node->config, &node->backend));
    for (size_t i = 0; i < CF_NODES_MAX; i++) {
        if (world->nodes[i] == NULL) {
            world->nodes[i] = node;
            return node;
        }
    }
    fail_msg("a test opened more than %d nodes", CF_NODES_MAX);
    return NULL;
}

struct cf_node *redis_open(struct cf_world *world, const char *name, int64_t lease_ms)
{
    return redis_open_at(world, name, world->url, lease_ms, CF_TIMEOUT_MS);
}

int redis_try_url(struct cf_world *world, const char *url, int64_t timeout_ms)
{
    struct cf_node node = {.backend = NULL};
    cf_config(&node, world, "try", NULL);
    node.config.url = url;
    node.config.request_timeout_ms = timeout_ms;
    node.config.notice = keep_notice;
    void *const untouched = &node;
    void *backend = untouched;
    int code = world->driver->open(&node.config, &backend);
    if (code == JOBSCHED_OK) {
        world->driver->close(backend);
    } else {
        cf_true(backend == untouched);
        cf_equal(jobsched_last_error()->code, code);
        cf_true(strchr(jobsched_last_error()->message, '\'') != NULL);
        cf_true(strchr(jobsched_last_error()->message, '\n') == NULL);
    }
    return code;
}

void redis_expect_message(const char *text)
{
    if (strstr(jobsched_last_error()->message, text) == NULL) {
        fail_msg("'%s' is not in the message: %s", text, jobsched_last_error()->message);
    }
}

void redis_expect_no_message(const char *text)
{
    if (strstr(jobsched_last_error()->message, text) != NULL) {
        fail_msg("'%s' is in the message: %s", text, jobsched_last_error()->message);
    }
}

static redisReply *ask(const char *directory, const char *format, va_list arguments)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/redis.sock", directory);
    redisContext *context = redisConnectUnix(path);
    cf_true(context != NULL && context->err == 0);
    redisReply *reply = redisvCommand(context, format, arguments);
    redisFree(context);
    cf_true(reply != NULL);
    if (reply->type == REDIS_REPLY_ERROR) {
        print_error("%s: %s\n", format, reply->str);
        freeReplyObject(reply);
        fail();
    }
    return reply;
}

static int64_t number_of(redisReply *reply)
{
    int64_t number = reply->type == REDIS_REPLY_INTEGER  ? reply->integer
                     : reply->type == REDIS_REPLY_NIL    ? -1
                     : reply->type == REDIS_REPLY_ARRAY  ? (int64_t)reply->elements
                     : reply->type == REDIS_REPLY_STRING ? (int64_t)reply->len
                                                         : 0;
    freeReplyObject(reply);
    return number;
}

int64_t redis_ask(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int64_t number = number_of(ask(redis_directory, format, arguments));
    va_end(arguments);
    return number;
}

int64_t redis_ask_in(const char *directory, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int64_t number = number_of(ask(directory, format, arguments));
    va_end(arguments);
    return number;
}

void redis_text(char *out, size_t bytes, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = ask(redis_directory, format, arguments);
    va_end(arguments);
    (void)snprintf(out, bytes, "%s", reply->str == NULL ? "" : reply->str);
    freeReplyObject(reply);
}

int64_t redis_keys(void)
{
    return redis_ask("EVAL %s 0", "local n = 0 for _, k in ipairs(redis.call('KEYS', '*')) do "
                                  "if redis.call('PTTL', k) == -1 then n = n + 1 end end return n");
}

int redis_free_port(void)
{
    /* Not of those that the kernel gives to whoever connects: the server takes it some time later. */
    enum { FIRST = 20000, COUNT = 12000, TRIES = 1000 };
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint32_t number = 0;
    int failed = -1;
    for (int i = 0; failed != 0 && i < TRIES; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        cf_true(fd >= 0);
        cf_equal(getrandom(&number, sizeof number, 0), sizeof number);
        address.sin_port = htons((uint16_t)(FIRST + number % COUNT));
        failed = bind(fd, (struct sockaddr *)&address, sizeof address);
        (void)close(fd);
    }
    cf_equal(failed, 0);
    return ntohs(address.sin_port);
}

int redis_claim(struct cf_node *node, jobsched_claim *claim, int64_t timeout_ms)
{
    jobsched_call call = {.lane = JOBSCHED_LANE_CLAIM, .timeout_ms = timeout_ms};
    return node->driver->claim(node->backend, &call, claim, 1);
}
