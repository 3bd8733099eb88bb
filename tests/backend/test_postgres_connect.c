/* test_postgres_connect.c: the way to a postgresql: server: names that are looked up, several hosts,
 * TLS, and libpq's own environment and service files. The resolver of this program is its own.
 *   test_postgres_connect DIRECTORY     unused: it starts a server of its own */
#include "postgres_support.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static char server[64];
static int port;

/* ---- the resolver ---- */

static pthread_mutex_t resolver_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t resolver_cond = PTHREAD_COND_INITIALIZER;
static int resolver_hangs, resolver_waits; /* guarded by resolver_lock */

static void set_hangs(int hangs)
{
    (void)pthread_mutex_lock(&resolver_lock);
    resolver_hangs = hangs;
    (void)pthread_cond_broadcast(&resolver_cond);
    (void)pthread_mutex_unlock(&resolver_lock);
}

static int waits(void)
{
    (void)pthread_mutex_lock(&resolver_lock);
    int count = resolver_waits;
    (void)pthread_mutex_unlock(&resolver_lock);
    return count;
}

/* In libc's place, also for libpq: "hangs.test" takes as long as the test likes, every name is the
 * loopback device. The result is what freeaddrinfo() below frees. */
JOBSCHED_API int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                             struct addrinfo **out_result)
{
    (void)hints;
    (void)pthread_mutex_lock(&resolver_lock);
    while (node != NULL && strcmp(node, "hangs.test") == 0 && resolver_hangs) {
        resolver_waits++;
        (void)pthread_cond_wait(&resolver_cond, &resolver_lock);
        resolver_waits--;
    }
    (void)pthread_mutex_unlock(&resolver_lock);
    struct place {
        struct addrinfo info;
        struct sockaddr_in address;
    } *place = calloc(1, sizeof *place);
    if (place == NULL) {
        return EAI_MEMORY;
    }
    place->address.sin_family = AF_INET;
    place->address.sin_port = htons((uint16_t)strtol(service == NULL ? "0" : service, NULL, 10));
    place->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    place->info = (struct addrinfo){.ai_family = AF_INET,
                                    .ai_socktype = SOCK_STREAM,
                                    .ai_addrlen = sizeof place->address,
                                    .ai_addr = (struct sockaddr *)&place->address};
    *out_result = &place->info;
    return 0;
}

JOBSCHED_API void freeaddrinfo(struct addrinfo *result)
{
    free(result); /* it is the first member of what was allocated */
}

/* ---- the server ---- */

/* A port that was free a moment ago. */
static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) != 0) {
        return -1;
    }
    (void)close(fd);
    return ntohs(address.sin_port);
}

/* A certificate authority of our own, which has signed for "good.test" and for nobody else. */
static int make_certificate(void)
{
    char command[2048];
    (void)snprintf(
        command, sizeof command,
        "cd %s && openssl req -new -x509 -days 2 -nodes -newkey rsa:2048 -subj /CN=authority "
        "-keyout ca.key -out ca.crt > openssl.log 2>&1 && openssl req -new -nodes -newkey rsa:2048 "
        "-subj /CN=good.test -keyout server.key -out server.csr >> openssl.log 2>&1 && "
        "printf 'subjectAltName=DNS:good.test' > ext && openssl x509 -req -in server.csr -days 2 "
        "-CA ca.crt -CAkey ca.key -CAcreateserial -extfile ext -out server.crt >> openssl.log 2>&1 "
        "&& chmod 0600 server.key && if [ \"$(id -u)\" = 0 ]; then chown nobody:nogroup "
        "server.key; "
        "fi",
        server);
    return system(command);
}

static int group_set_up(void **state)
{
    (void)state;
    char settings[512], command[128];
    (void)snprintf(server, sizeof server, "/tmp/jpgc-%ld", (long)getpid());
    (void)snprintf(command, sizeof command, "mkdir -p %s && chmod 0755 %s", server, server);
    postgres_directory = server;
    if (system(command) != 0 || make_certificate() != 0) {
        return -1;
    }
    int failed = 1;
    for (int tries = 0; failed && tries < 3; tries++) { /* somebody may have taken the port */
        port = free_port();
        (void)snprintf(settings, sizeof settings,
                       "listen_addresses=127.0.0.1 port=%d ssl=on ssl_cert_file=%s/server.crt "
                       "ssl_key_file=%s/server.key",
                       port, server, server);
        failed = port < 0 || postgres_script("start", server, settings) != 0;
    }
    if (failed) {
        return -1;
    }
    (void)snprintf(settings, sizeof settings, "%d", port);
    return setenv("PGPORT", settings, 1); /* of the test's own connections, and for the URLs here */
}

static int group_tear_down(void **state)
{
    (void)state;
    (void)postgres_script("remove", server, "");
    return 0;
}

static int tear_down(void **state)
{
    set_hangs(0);
    return postgres_tear_down(state);
}

/* Until it works, as the engine does. */
static void renew_again(struct cf_node *node)
{
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    jobsched_call call = cf_call(JOBSCHED_LANE_KEEP);
    while (node->driver->renew(node->backend, &call, 0, NULL, 0) != JOBSCHED_OK) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
}

static int try_hosts(struct cf_world *world, const char *authority, const char *options)
{
    char url[POSTGRES_URL_BYTES];
    (void)snprintf(url, sizeof url, "postgresql://postgres@%s/postgres?jobsched_schema=%s%s",
                   authority, postgres_schema, options);
    return postgres_try_url(world, url);
}

/* A server takes its settings anew when it gets to it. */
static void await_code(struct cf_world *world, const char *url, int code)
{
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (postgres_try_url(world, url) != code) {
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
}

/* G11: a resolver that hangs holds up nobody for longer than a request may take, wherever it comes in
 * the list of hosts; and there is no more than one thread that waits for it. */
static void test_resolver_that_hangs(void **state)
{
    char second[64];
    (void)snprintf(second, sizeof second, "127.0.0.1:1,hangs.test:%d", port);
    const char *const authorities[] = {"hangs.test", second};
    struct cf_world *world = *state;
    for (int i = 0; i < 2; i++) {
        char url[POSTGRES_URL_BYTES];
        (void)snprintf(url, sizeof url, "postgresql://postgres@%s/postgres?jobsched_schema=%s",
                       authorities[i], postgres_schema);
        struct cf_node node = {.backend = NULL};
        cf_config(&node, world, "node", NULL);
        node.config.url = url;
        node.config.request_timeout_ms = 3000; /* or it may be over before the name's turn comes */
        set_hangs(1);
        int64_t began_ms = cf_real_mono_ms();
        cf_equal(node.driver->open(&node.config, &node.backend), JOBSCHED_EUNREACHABLE);
        cf_true(cf_real_mono_ms() - began_ms < CF_TIMEOUT_MS);
        postgres_expect_message("hangs.test");
        int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
        while (waits() == 0) {
            cf_true(cf_real_mono_ms() < deadline_ms);
            cf_pause();
        }
        cf_equal(waits(), 1);
        set_hangs(0);
        while (waits() > 0) { /* it ends by itself, long after its handle */
            cf_true(cf_real_mono_ms() < deadline_ms);
            cf_pause();
        }
    }
    cf_ok(try_hosts(world, "hangs.test", ""));
    cf_ok(try_hosts(world, second, ""));
}

/* While a node is at work: each call keeps its time, and what is found out late is of use to the
 * next one. */
static void test_resolver_that_hangs_later(void **state)
{
    enum { SLACK_MS = 10000 }; /* half of what the node's calls have usually */
    struct cf_world *world = *state;
    (void)snprintf(world->url, sizeof world->url,
                   "postgresql://postgres@hangs.test/postgres?jobsched_schema=%s", postgres_schema);
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 2);
    set_hangs(1);
    postgres_do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = "
                "'jobsched node'");
    for (int i = 0; i < 3; i++) {
        jobsched_claim claim = cf_at(&job, 1);
        jobsched_call call = cf_call(JOBSCHED_LANE_CLAIM);
        call.timeout_ms = 200;
        int64_t began_ms = cf_real_mono_ms();
        int code = node->driver->claim(node->backend, &call, &claim, 1);
        /* The first may find out only by asking that its connection is gone. */
        cf_true(code == JOBSCHED_EUNREACHABLE || (i == 0 && code == JOBSCHED_EUNKNOWN));
        cf_true(cf_real_mono_ms() - began_ms < 200 + SLACK_MS);
        began_ms = cf_real_mono_ms();
        call = cf_call(JOBSCHED_LANE_KEEP);
        call.timeout_ms = 200;
        cf_equal(node->driver->renew(node->backend, &call, 0, NULL, 0) == JOBSCHED_OK, 0);
        cf_true(cf_real_mono_ms() - began_ms < 200 + SLACK_MS);
    }
    int64_t deadline_ms = cf_real_mono_ms() + CF_POLL_MS;
    while (waits() < 2) { /* a thread of its own, which may come to it later */
        cf_true(cf_real_mono_ms() < deadline_ms);
        cf_pause();
    }
    cf_equal(waits(), 2); /* one per lane */
    set_hangs(0);
    renew_again(node); /* a grant amid the return would have to be asked for again */
    (void)cf_grant(node, &job, 1);
}

/* TLS is libpq's: its parameters are those of the URL, and the host's name is checked as it was
 * given, although it is looked up elsewhere. */
static void test_tls(void **state)
{
    struct cf_world *world = *state;
    char options[160];
    (void)snprintf(options, sizeof options, "&sslmode=verify-full&sslrootcert=%s/ca.crt", server);
    cf_ok(try_hosts(world, "good.test", options));
    cf_equal(try_hosts(world, "bad.test", options), JOBSCHED_EREFUSED);
    postgres_expect_message("bad.test");
    (void)snprintf(options, sizeof options, "&sslmode=verify-full&sslrootcert=%s/none.crt", server);
    cf_equal(try_hosts(world, "good.test", options), JOBSCHED_EREFUSED);
    postgres_expect_message("correct the certificate, or 'sslrootcert'");
    (void)snprintf(options, sizeof options, "&sslmode=require");
    (void)snprintf(world->url, sizeof world->url,
                   "postgresql://postgres@good.test/postgres?jobsched_schema=%s%s", postgres_schema,
                   options);
    struct cf_node *node = cf_open(world, "node");
    struct cf_job job = cf_job(node, "job", 2);
    jobsched_claim run = cf_grant(node, &job, 1);
    cf_equal(postgres_ask("SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) "
                          "WHERE s.ssl AND a.application_name = 'jobsched node'"),
             2);
    postgres_terminate("node");
    renew_again(node);
    cf_equal(cf_renew(node, "job", run.token), JOBSCHED_LEASE_KEPT);
}

/* Issue 4: what no waiting cures is no server that cannot be reached: each has the class that tells
 * who must act, and its text what to do. */
static void test_mistakes_have_classes(void **state)
{
    static const struct {
        const char *options;
        int code;
        const char *text;
    } cases[] = {
        {"&sslmode=nonsense", JOBSCHED_EINVAL, "invalid sslmode value"},
        {"&target_session_attrs=nonsense", JOBSCHED_EINVAL, "invalid target_session_attrs value"},
        {"&channel_binding=nonsense", JOBSCHED_EINVAL, "invalid channel_binding value"},
        {"&keepalives=nonsense", JOBSCHED_EINVAL, "invalid integer value"},
        {"&port=1,2", JOBSCHED_EINVAL, "could not match 2 port numbers"},
        {"&service=nosuch", JOBSCHED_EINVAL, "definition of service \"nosuch\" not found"},
        {"&dbname=nosuch", JOBSCHED_EUNREACHABLE, "create it, or correct the lock URL"},
    };
    struct cf_world *world = *state;
    char path[96];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int code = try_hosts(world, "good.test", cases[i].options);
        postgres_expect_message(cases[i].text);
        cf_equal(code, cases[i].code);
    }
    (void)snprintf(path, sizeof path, "%s/no-such-file", server);
    cf_equal(setenv("PGSERVICEFILE", path, 1), 0);
    cf_equal(try_hosts(world, "good.test", "&service=nosuch"), JOBSCHED_EINVAL);
    (void)unsetenv("PGSERVICEFILE");
    postgres_expect_message("service file ");
    cf_equal(setenv("PGPORT", "99999", 1), 0);
    int code = try_hosts(world, "good.test", "");
    (void)snprintf(path, sizeof path, "%d", port);
    cf_equal(setenv("PGPORT", path, 1), 0);
    cf_equal(code, JOBSCHED_EINVAL);
    postgres_expect_message("invalid port number");
}

/* The same of passwords, and of TLS that is wanted on one side only: with another server's settings.
 * Nothing shows the password. */
static void test_refused_logins_have_classes(void **state)
{
    struct cf_world *world = *state;
    char command[512];
    postgres_do("CREATE ROLE walter LOGIN PASSWORD 'geheim'");
    (void)snprintf(command, sizeof command,
                   "cp %s/data/pg_hba.conf %s/hba && printf 'host all walter all scram-sha-256\n"
                   "host all all all trust\nlocal all all trust\n' > %s/data/pg_hba.conf",
                   server, server, server);
    cf_equal(system(command), 0);
    postgres_do("SELECT pg_reload_conf()");
    char url[POSTGRES_URL_BYTES];
    (void)snprintf(url, sizeof url, "postgresql://walter@127.0.0.1:%d/postgres", port);
    await_code(world, url, JOBSCHED_EACCESS);
    postgres_expect_message("no password supplied; give the password in the lock URL, PGPASSWORD "
                            "or ~/.pgpass");
    (void)snprintf(url, sizeof url, "postgresql://walter:falsch@127.0.0.1:%d/postgres", port);
    cf_equal(postgres_try_url(world, url), JOBSCHED_EACCESS);
    postgres_expect_message("28P01");
    postgres_expect_message("correct it in the lock URL");
    cf_true(strstr(jobsched_last_error()->message, "falsch") == NULL);
    postgres_do("ALTER SYSTEM SET ssl = off");
    postgres_do("SELECT pg_reload_conf()");
    (void)snprintf(url, sizeof url, "postgresql://postgres@127.0.0.1:%d/postgres?sslmode=require",
                   port);
    await_code(world, url, JOBSCHED_EREFUSED);
    postgres_expect_message("SSL was required; set 'ssl=on' at the server, or correct 'sslmode'");
    postgres_do("ALTER SYSTEM RESET ssl");
    (void)snprintf(command, sizeof command, "cat %s/hba > %s/data/pg_hba.conf", server, server);
    cf_equal(system(command), 0);
    postgres_do("SELECT pg_reload_conf()");
    (void)snprintf(url, sizeof url,
                   "postgresql://postgres@127.0.0.1:%d/postgres?sslmode=require&jobsched_schema=%s",
                   port, postgres_schema);
    await_code(world, url, JOBSCHED_OK);
    postgres_do("DROP ROLE walter");
}

/* libpq's environment and service files work as with every other program. */
static void test_environment_and_service(void **state)
{
    struct cf_world *world = *state;
    char path[96], command[256], url[POSTGRES_URL_BYTES];
    (void)snprintf(path, sizeof path, "%s/service", server);
    (void)snprintf(command, sizeof command,
                   "printf '[tests]\\nhost=%s\\nuser=postgres\\ndbname=postgres\\n' > %s", server,
                   path);
    cf_equal(system(command), 0);
    cf_equal(setenv("PGSERVICEFILE", path, 1), 0);
    (void)snprintf(url, sizeof url, "postgresql://?service=tests&jobsched_schema=%s",
                   postgres_schema);
    cf_ok(postgres_try_url(world, url));
    cf_equal(setenv("PGHOST", server, 1), 0);
    cf_equal(setenv("PGUSER", "postgres", 1), 0);
    cf_equal(setenv("PGDATABASE", "postgres", 1), 0);
    (void)snprintf(url, sizeof url, "postgresql:?jobsched_schema=%s", postgres_schema);
    cf_ok(postgres_try_url(world, url));
    cf_equal(setenv("PGHOST", "/nowhere", 1), 0);
    cf_equal(postgres_try_url(world, url), JOBSCHED_EUNREACHABLE);
    (void)unsetenv("PGHOST");
    (void)unsetenv("PGUSER");
    (void)unsetenv("PGDATABASE");
    (void)unsetenv("PGSERVICEFILE");
}

/* G10: a frozen owner, or one whose host is gone, is noticed by the server itself, also where the way
 * is TCP and stays silent: each session has keepalives and tcp_user_timeout within the lease. (On a
 * unix socket, as in test_postgres_store, they read 0.) */
static void test_settings_of_sessions_over_tcp(void **state)
{
    static const char *const wanted[][2] = {
        {"tcp_keepalives_idle", "11"},
        {"tcp_keepalives_interval", "11"},
        {"tcp_keepalives_count", "3"},
        {"tcp_user_timeout", "30000"},
    };
    struct cf_world *world = *state;
    (void)snprintf(world->url, sizeof world->url,
                   "postgresql://postgres@127.0.0.1:%d/postgres?sslmode=disable&jobsched_schema=%s",
                   port, postgres_schema);
    struct cf_node node = {.backend = NULL};
    cf_config(&node, world, "node", NULL);
    node.config.lease_ms = 30000;
    cf_ok(node.driver->open(&node.config, &node.backend));
    struct cf_job job = cf_job(&node, "job", 1);
    /* The clock is asked in every session. */
    postgres_do(
        "CREATE TABLE \"%s\".seen(pid int, name text, value text, PRIMARY KEY (pid, name))");
    postgres_do("CREATE OR REPLACE FUNCTION \"%s\".now_ms() RETURNS bigint LANGUAGE plpgsql AS "
                "$f$BEGIN INSERT INTO \"%s\".seen SELECT pg_backend_pid(), name, setting "
                "FROM pg_settings WHERE name LIKE 'tcp%' ON CONFLICT DO NOTHING; RETURN "
                "floor(date_part('epoch', clock_timestamp()) * 1000); END$f$");
    jobsched_claim claim = cf_at(&job, 1);
    cf_ask(&node, &claim);
    cf_answer(claim, GRANTED);
    cf_equal(cf_renew(&node, "job", claim.token), JOBSCHED_LEASE_KEPT);
    cf_ok(cf_control(&node, JOBSCHED_VERB_CANCEL, "job", NULL, NULL));
    node.driver->close(node.backend);
    cf_equal(postgres_ask("SELECT count(DISTINCT pid) FROM \"%s\".seen"), 3);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        char sql[256];
        (void)snprintf(sql, sizeof sql,
                       "SELECT count(*) FROM \"%%s\".seen WHERE name = '%s' AND value = '%s'",
                       wanted[i][0], wanted[i][1]);
        if (postgres_ask(sql) != 3) {
            fail_msg("%s is not %s in each session", wanted[i][0], wanted[i][1]);
        }
    }
}

/* G13: what a server says while a connection is made (here: the database's collation is of another
 * version) is not printed, by no lane; libpq would, on the host's stderr. */
static void test_notice_while_connecting_is_not_printed(void **state)
{
    struct cf_world *world = *state;
    char path[96], own[128], said[512];
    (void)snprintf(path, sizeof path, "%s/stderr", server);
    (void)snprintf(own, sizeof own, "dbname=noted user=postgres host=%s", server);
    postgres_do("CREATE DATABASE noted");
    postgres_do("UPDATE pg_database SET datcollversion = 'older' WHERE datname = 'noted'");
    (void)snprintf(world->url, sizeof world->url,
                   "postgresql:///noted?host=%s&user=postgres&jobsched_schema=%s", server,
                   postgres_schema);
    (void)fflush(stderr);
    int kept = dup(STDERR_FILENO);
    FILE *file = fopen(path, "w+");
    cf_true(kept >= 0 && file != NULL);
    cf_equal(dup2(fileno(file), STDERR_FILENO), STDERR_FILENO);
    struct cf_node node = {.backend = NULL};
    cf_config(&node, world, "node", NULL);
    int opened = node.driver->open(&node.config, &node.backend);
    jobsched_call renewal = cf_call(JOBSCHED_LANE_KEEP), look = cf_call(JOBSCHED_LANE_ADMIN);
    int renewed = opened != 0 ? opened : node.driver->renew(node.backend, &renewal, 0, NULL, 0);
    int looked = opened != 0 ? opened : node.driver->runs(node.backend, &look, "x", 1, NULL, NULL);
    node.driver->close(node.backend);
    PQfinish(PQconnectdb(own)); /* the host's own connection: that one is told */
    (void)fflush(stderr);
    cf_equal(dup2(kept, STDERR_FILENO), STDERR_FILENO); /* before anything is asserted */
    (void)close(kept);
    rewind(file);
    int notices = 0;
    while (fgets(said, sizeof said, file) != NULL) {
        notices += strstr(said, "collation version") != NULL;
    }
    (void)fclose(file);
    cf_equal(opened, JOBSCHED_OK);
    cf_equal(renewed, JOBSCHED_OK);
    cf_equal(looked, JOBSCHED_OK);
    cf_equal(notices, 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, postgres_set_up, tear_down)
        TEST(test_resolver_that_hangs),
        TEST(test_resolver_that_hangs_later),
        TEST(test_tls),
        TEST(test_mistakes_have_classes),
        TEST(test_refused_logins_have_classes),
        TEST(test_environment_and_service),
        TEST(test_settings_of_sessions_over_tcp),
        TEST(test_notice_while_connecting_is_not_printed),
    };
    if (argc > 2) {
        cmocka_set_test_filter(argv[2]);
    }
    return cmocka_run_group_tests(tests, group_set_up, group_tear_down) ? 1 : 0;
}
