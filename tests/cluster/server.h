/* server.h: the store that the nodes of a cluster test share: a file, or a private server that the
 * test may stop, freeze and kill. Nothing here asserts. Locks: none, one thread. */
#ifndef CLUSTER_SERVER_H
#define CLUSTER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum server_kind { SERVER_SQLITE, SERVER_POSTGRESQL, SERVER_REDIS, SERVER_KINDS };

typedef struct server {
    int kind;
    bool foreign;       /* somebody else's: only its URL is known */
    char directory[96]; /* of the database file, or of the server */
    char database[160]; /* SQLITE: the file */
    char socket[160];   /* the others: where the server listens */
    char settings[200]; /* words for postgres.sh or redis.sh; kept over restarts */
    char url[256];      /* of the store */
    int guard;          /* -1: none */
} server;

/* "sqlite", "postgresql", "redis", or a URL of one of them. -1: unknown, or not built. */
int server_kind_of(const char *text);
const char *server_kind_name(int kind);

/* Makes the store in a folder that does not exist yet, and starts its server. False: it told why on
 * stderr. The server ends with this process, however that ends. */
bool server_make(server *out, int kind, const char *directory, const char *settings);
/* A store of somebody else. */
bool server_borrow(server *out, const char *url);
void server_remove(server *s);

/* The URL for nodes that reach the server through another socket or port (a proxy). */
void server_url_at(const server *s, const char *socket, char *out, size_t bytes);
void server_url_of_port(const server *s, int port, char *out, size_t bytes);

/* kill -9 of all its processes, and its start with the same settings. */
bool server_kill(server *s);
bool server_start(server *s);
/* The same, with a word of settings added (a server that is started again). */
bool server_start_with(server *s, const char *setting);

/* SIGSTOP or SIGCONT to all its processes. */
void server_freeze(const server *s);
void server_thaw(const server *s);

/* One statement or command, past the backend; the first line of what it prints. False: it failed,
 * and out has what it said. */
bool server_ask(const server *s, const char *command, char *out, size_t bytes);

/* The library of a build of the backend that ignores the mark; NULL: there is none, and
 * server_drop_mark changes what the store has in its database, once it is there. */
const char *server_nomark_library(const server *s);
bool server_drop_mark(const server *s);

/* Forcibly ends all sessions that nodes have at the server; how many. */
int server_end_sessions(const server *s);

#endif
