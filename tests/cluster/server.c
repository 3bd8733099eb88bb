/* server.c: see server.h. */
#include "server.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A file system or a disk that hangs is none of these tests' business. */
enum { PROCESSES_MAX = 256, COMMAND_BYTES = 8192 };

static const char *const names[SERVER_KINDS] = {"sqlite", "postgresql", "redis"};

static const char *script(int kind)
{
    return kind == SERVER_POSTGRESQL ? CLUSTER_SUPPORT "/postgres.sh" : CLUSTER_SUPPORT "/redis.sh";
}

static bool is_built(int kind)
{
    return kind == SERVER_SQLITE || (kind == SERVER_POSTGRESQL && CLUSTER_POSTGRESQL != 0) ||
           (kind == SERVER_REDIS && CLUSTER_REDIS != 0);
}

int server_kind_of(const char *text)
{
    for (int kind = 0; kind < SERVER_KINDS; kind++) {
        size_t length = strlen(names[kind]);
        if (strncmp(text, names[kind], length) == 0 &&
            (text[length] == '\0' || text[length] == ':') && is_built(kind)) {
            return kind;
        }
    }
    return -1;
}

const char *server_kind_name(int kind)
{
    return names[kind];
}

/* Runs a command of the shell; what it prints on both streams goes to out. */
static bool run(const char *command, char *out, size_t bytes)
{
    size_t used = 0;
    FILE *pipe = popen(command, "re");
    if (pipe == NULL) {
        (void)snprintf(out, bytes, "popen: %s", strerror(errno));
        return false;
    }
    char rest[256];
    while (used + 1 < bytes && fgets(out + used, (int)(bytes - used), pipe) != NULL) {
        used += strlen(out + used);
    }
    out[used] = '\0';
    while (fgets(rest, sizeof rest, pipe) != NULL) {
        /* what nobody wants to know */
    }
    return pclose(pipe) == 0;
}

static bool run_script(const server *s, const char *command, const char *arguments)
{
    char line[COMMAND_BYTES];
    char said[1024];
    (void)snprintf(line, sizeof line, "sh '%s' %s '%s' %s 2>&1 < /dev/null", script(s->kind),
                   command, s->directory, arguments);
    if (!run(line, said, sizeof said)) {
        (void)fprintf(stderr, "%s: %s\n", line, said);
        return false;
    }
    return true;
}

/* A process of its own session that waits until this one is gone, however it ends, and then
 * removes the server. Returns the end of the pipe that keeps it waiting. */
static int start_guard(const server *s)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)setsid();
        if (fork() != 0) {
            _exit(0);
        }
        /* Nobody waits for the output of this test until the guard is gone, too. */
        int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
        (void)dup2(nowhere, 0);
        (void)dup2(nowhere, 1);
        (void)dup2(nowhere, 2);
        (void)close(ends[1]);
        char byte;
        while (read(ends[0], &byte, 1) < 0 && errno == EINTR) {
            /* wait on */
        }
        (void)execl("/bin/sh", "sh", script(s->kind), "remove", s->directory, (char *)NULL);
        _exit(127);
    }
    (void)close(ends[0]);
    (void)waitpid(pid, NULL, 0);
    return ends[1];
}

static void set_url(server *s)
{
    if (s->kind == SERVER_SQLITE) {
        (void)snprintf(s->database, sizeof s->database, "%s/jobs.db", s->directory);
        (void)snprintf(s->url, sizeof s->url, "sqlite:%s", s->database);
        return;
    }
    const char *file = s->kind == SERVER_POSTGRESQL ? ".s.PGSQL.5432" : "redis.sock";
    (void)snprintf(s->socket, sizeof s->socket, "%s/%s", s->directory, file);
    server_url_at(s, s->socket, s->url, sizeof s->url);
}

void server_url_at(const server *s, const char *socket, char *out, size_t bytes)
{
    if (s->kind == SERVER_REDIS) {
        (void)snprintf(out, bytes, "redis://?socket=%s", socket);
        return;
    }
    const char *slash = strrchr(socket, '/');
    (void)snprintf(out, bytes, "postgresql:///postgres?host=%.*s&user=postgres",
                   (int)(slash - socket), socket);
}

void server_url_of_port(const server *s, int port, char *out, size_t bytes)
{
    if (s->kind == SERVER_REDIS) {
        (void)snprintf(out, bytes, "redis://127.0.0.1:%d", port);
    } else {
        (void)snprintf(out, bytes, "postgresql://postgres@127.0.0.1:%d/postgres?sslmode=disable",
                       port);
    }
}

bool server_make(server *out, int kind, const char *directory, const char *settings)
{
    *out = (server){.kind = kind, .guard = -1};
    (void)snprintf(out->directory, sizeof out->directory, "%s", directory);
    /* One that forgets nothing of what it answered: other losses are tests of their own. */
    (void)snprintf(out->settings, sizeof out->settings, "%s %s",
                   kind == SERVER_REDIS ? "appendonly=yes appendfsync=always" : "", settings);
    set_url(out);
    if (kind == SERVER_SQLITE) {
        return mkdir(directory, 0755) == 0;
    }
    out->guard = start_guard(out);
    return out->guard >= 0 && server_start(out);
}

bool server_borrow(server *out, const char *url)
{
    *out = (server){.kind = server_kind_of(url), .foreign = true, .guard = -1};
    (void)snprintf(out->url, sizeof out->url, "%s", url);
    return out->kind >= 0;
}

void server_remove(server *s)
{
    if (s->guard >= 0) {
        server_thaw(s);
        (void)run_script(s, "remove", "");
        (void)close(s->guard);
        s->guard = -1;
    }
}

bool server_start(server *s)
{
    return run_script(s, "start", s->settings);
}

bool server_start_with(server *s, const char *setting)
{
    size_t used = strlen(s->settings);
    (void)snprintf(s->settings + used, sizeof s->settings - used, " %s", setting);
    return server_start(s);
}

bool server_kill(server *s)
{
    server_thaw(s);
    return s->kind == SERVER_REDIS ? run_script(s, "kill", "") : run_script(s, "stop", "immediate");
}

/* ---- its processes --------------------------------------------------------------- */

static pid_t main_process(const server *s)
{
    char path[200];
    long pid = 0;
    (void)snprintf(path, sizeof path, "%s/%s", s->directory,
                   s->kind == SERVER_POSTGRESQL ? "data/postmaster.pid" : "pid");
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        char line[32];
        if (fgets(line, sizeof line, file) != NULL) {
            pid = strtol(line, NULL, 10);
        }
        (void)fclose(file);
    }
    return (pid_t)pid;
}

static pid_t parent_of(pid_t pid)
{
    char path[64];
    char text[512];
    long parent = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    if (fgets(text, sizeof text, file) != NULL) {
        const char *behind = strrchr(text, ')'); /* names may have blanks and brackets */
        if (behind != NULL && strlen(behind) > 4) {
            parent = strtol(behind + 4, NULL, 10);
        }
    }
    (void)fclose(file);
    return (pid_t)parent;
}

/* The main one first: then it cannot start others meanwhile. */
static void signal_all(const server *s, int number)
{
    pid_t first = s->kind == SERVER_SQLITE || s->foreign ? 0 : main_process(s);
    if (first <= 1) {
        return;
    }
    (void)kill(first, number);
    DIR *all = s->kind == SERVER_POSTGRESQL ? opendir("/proc") : NULL;
    for (struct dirent *entry; all != NULL && (entry = readdir(all)) != NULL;) {
        pid_t pid =
            isdigit((unsigned char)entry->d_name[0]) ? (pid_t)strtol(entry->d_name, NULL, 10) : 0;
        if (pid > 1 && parent_of(pid) == first) {
            (void)kill(pid, number);
        }
    }
    if (all != NULL) {
        (void)closedir(all);
    }
}

void server_freeze(const server *s)
{
    signal_all(s, SIGSTOP);
}

void server_thaw(const server *s)
{
    signal_all(s, SIGCONT);
}

/* ---- asking it ------------------------------------------------------------------- */

bool server_ask(const server *s, const char *command, char *out, size_t bytes)
{
    char line[COMMAND_BYTES];
    out[0] = '\0';
    if (s->foreign || strchr(command, '\'') != NULL) { /* the shell's; SQL has $$ */
        return false;
    }
    if (s->kind == SERVER_REDIS) {
        (void)snprintf(line, sizeof line, "redis-cli -s '%s' %s 2>&1 < /dev/null", s->socket,
                       command);
    } else {
        (void)snprintf(line, sizeof line,
                       "psql -X -q -A -t -v ON_ERROR_STOP=1 -h '%s' -U postgres -d postgres "
                       "-c '%s' 2>&1 < /dev/null",
                       s->directory, command);
    }
    bool done = run(line, out, bytes);
    out[strcspn(out, "\n")] = '\0';
    return done && (s->kind != SERVER_REDIS || strncmp(out, "ERR", 3) != 0);
}

static int first_number(const char *text)
{
    return (int)strtol(text + strcspn(text, "0123456789"), NULL, 10);
}

int server_end_sessions(const server *s)
{
    char said[256];
    if (s->kind == SERVER_POSTGRESQL) {
        (void)server_ask(s,
                         "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                         "WHERE application_name LIKE $$jobsched%$$",
                         said, sizeof said);
    } else {
        char pushed[256];
        (void)server_ask(s, "CLIENT KILL TYPE pubsub", pushed, sizeof pushed);
        (void)server_ask(s, "CLIENT KILL TYPE normal SKIPME yes", said, sizeof said);
        return first_number(pushed) + first_number(said);
    }
    return first_number(said);
}

const char *server_nomark_library(const server *s)
{
    return s->kind == SERVER_SQLITE  ? CLUSTER_NOMARK_SQLITE
           : s->kind == SERVER_REDIS ? CLUSTER_NOMARK_REDIS
                                     : NULL;
}

bool server_drop_mark(const server *s)
{
    /* What the election is, in the functions claim(), claim_one() and grant_first(). Each must be
     * found, or this is not the backend that it was. */
    static const char *const steps[][3] = {
        {"claim", "IF c.scheduled_ms <= c.mark_ms THEN", "IF false THEN"},
        {"claim", "ELSIF c.mark_ms <> c.after_ms THEN", "ELSIF false THEN"},
        {"claim_one", "IF c_scheduled_ms <= f.mark_ms THEN", "IF false THEN"},
        {"claim_one", "ELSIF f.mark_ms <> c_after_ms THEN", "ELSIF false THEN"},
        {"grant_first", "AND f.mark_ms = u.after_ms", ""},
    };
    if (s->kind != SERVER_POSTGRESQL) {
        return true;
    }
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        char command[2048];
        char said[1024];
        (void)snprintf(command, sizeof command,
                       "DO $do$ DECLARE t text := (SELECT pg_get_functiondef(p.oid) FROM pg_proc p "
                       "WHERE p.proname = $$%s$$ AND p.pronamespace = $$jobsched$$::regnamespace); "
                       "BEGIN IF strpos(t, $$%s$$) = 0 THEN RAISE $$the mark of %s is not found$$; "
                       "END IF; EXECUTE replace(t, $$%s$$, $$%s$$); END $do$",
                       steps[i][0], steps[i][1], steps[i][0], steps[i][1], steps[i][2]);
        if (!server_ask(s, command, said, sizeof said)) {
            (void)fprintf(stderr, "%s: %s\n", steps[i][1], said);
            return false;
        }
    }
    return true;
}
