/* redis_fake.c: see redis_fake.h. Locks: none; what threads share is atomic. */
#include "redis_fake.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LOOK_MS 20

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)unlink(path);
    if (fd >= 0 &&
        (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 16) != 0)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

/* Requests come one by one, so what one read gets is one of them. */
static int answer(const struct redis_fake *fake, int client)
{
    char request[65536], reply[2048];
    ssize_t count = recv(client, request, sizeof request - 1, 0);
    if (count <= 0) {
        return 0;
    }
    request[count] = '\0';
    if (strstr(request, "\r\nINFO\r\n") == NULL && strstr(request, "\r\nSCRIPT\r\n") == NULL) {
        (void)snprintf(reply, sizeof reply, "%s\r\n", fake->other);
    } else if (strstr(request, "\r\nSCRIPT\r\n") != NULL) {
        (void)snprintf(reply, sizeof reply, "$40\r\n%040d\r\n", 7);
    } else if (fake->info[0] == '-') {
        (void)snprintf(reply, sizeof reply, "%s\r\n", fake->info);
    } else {
        (void)snprintf(reply, sizeof reply, "$%zu\r\n%s\r\n", strlen(fake->info), fake->info);
    }
    return send(client, reply, strlen(reply), MSG_NOSIGNAL) > 0;
}

static void *run_fake(void *data)
{
    struct redis_fake *fake = data;
    int client = -1;
    while (atomic_load(&fake->stops) == 0) {
        struct pollfd look = {.fd = client < 0 ? fake->listener : client, .events = POLLIN};
        if (poll(&look, 1, LOOK_MS) <= 0) {
            continue;
        }
        if (client < 0) {
            client = accept(fake->listener, NULL, NULL);
        } else if (!answer(fake, client)) {
            (void)close(client);
            client = -1;
        }
    }
    if (client >= 0) {
        (void)close(client);
    }
    return NULL;
}

int redis_fake_start(struct redis_fake *fake, const char *path, const char *info, const char *other)
{
    memset(fake, 0, sizeof *fake);
    (void)snprintf(fake->path, sizeof fake->path, "%s", path);
    fake->info = info;
    fake->other = other;
    fake->listener = listen_at(path);
    return fake->listener < 0 ? -1 : pthread_create(&fake->thread, NULL, run_fake, fake);
}

void redis_fake_stop(struct redis_fake *fake)
{
    atomic_store(&fake->stops, 1);
    (void)pthread_join(fake->thread, NULL);
    (void)close(fake->listener);
    (void)unlink(fake->path);
}
