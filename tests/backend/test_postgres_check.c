/* test_postgres_check.c: what doctor finds in a postgresql: store, each finding by its id and level
 * (issue 5). One server of its own, whose settings are changed; what a pooler is taken for is in
 * test_postgres_server.
 *   test_postgres_check DIRECTORY */
#include "checks.h"
#include "postgres_support.h"

#include <stdio.h>
#include <unistd.h>

static char primary[64], standby[64];

static int start_server(void **state)
{
    (void)state;
    (void)snprintf(primary, sizeof primary, "/tmp/jpgc-%ld", (long)getpid());
    (void)snprintf(standby, sizeof standby, "/tmp/jpgd-%ld", (long)getpid());
    postgres_directory = primary;
    return postgres_script("start", primary, "max_connections=30");
}

static int remove_servers(void **state)
{
    (void)state;
    postgres_disconnect();
    (void)postgres_script("remove", standby, "");
    return postgres_script("remove", primary, "");
}

/* Settings are the server's, so they are taken back also after a failure. */
static int tear_down(void **state)
{
    postgres_do("ALTER DATABASE postgres RESET ALL");
    postgres_do("ALTER SYSTEM RESET ALL");
    postgres_do("SELECT pg_reload_conf()");
    return postgres_tear_down(state);
}

static void set(const char *setting)
{
    char sql[160];
    (void)snprintf(sql, sizeof sql, "ALTER SYSTEM SET %s", setting);
    postgres_do(sql);
    postgres_do("SELECT pg_reload_conf()");
}

/* A node of another role, or with more in its URL, closed with the others. */
static struct cf_node *open_as(struct cf_world *world, const char *user, const char *options)
{
    const struct cf_settings settings = {.control_only = 1};
    postgres_url(world->url, sizeof world->url, user, options);
    return cf_open_with(world, "desk", &settings);
}

/* Where nothing is wrong, each thing that is looked at says so. */
static void test_all_is_well(void **state)
{
    struct checks checks;
    struct cf_node *node = cf_open(*state, "node");
    (void)cf_announce(node, "job", "d", 0);
    checks_read(node, &checks);
    checks_expect(&checks, "1 postgresql.server: PostgreSQL ");
    checks_contain(&checks, primary);
    checks_contain(&checks, postgres_schema);
    checks_contain(&checks, " 1 jobs, ");
    checks_expect(&checks, "1 postgresql.timeouts: the server ends the sessions");
    checks_expect(&checks, "1 postgresql.mode: session mode, connected to the server itself");
    checks_expect(&checks, "1 postgresql.durability: answers outlast a crash");
    checks_expect(&checks, "1 postgresql.replicas: there are no replicas");
    checks_expect(&checks, "1 postgresql.rights: the role has the rights it needs");
    checks_expect(&checks, "1 postgresql.connections: ");
    checks_expect(&checks, "1 postgresql.failover: the server is the one that it was");
    cf_equal(checks.count, 8);
    cf_equal(checks.level, JOBSCHED_LEVEL_INFO);
}

/* A role that may look and not write is told which tables it lacks rights on. */
static void test_missing_rights(void **state)
{
    struct checks checks;
    struct cf_world *world = *state;
    (void)cf_open(world, "node");
    postgres_do("DO $$ BEGIN CREATE ROLE looker LOGIN; EXCEPTION WHEN duplicate_object THEN NULL;"
                " END $$");
    postgres_do("GRANT USAGE ON SCHEMA \"%s\" TO looker");
    postgres_do("GRANT SELECT ON ALL TABLES IN SCHEMA \"%s\" TO looker");
    struct cf_node *looker = open_as(world, "looker", "");
    checks_read(looker, &checks);
    checks_expect(&checks, "3 postgresql.rights: role 'looker' lacks one of SELECT, INSERT, "
                           "UPDATE, DELETE on: ");
    checks_contain(&checks, "boot, commander, definition, fence, ");
    postgres_do("GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \"%s\" TO looker");
    postgres_do("REVOKE DELETE ON \"%s\".run FROM looker");
    checks_read(looker, &checks);
    checks_expect(&checks, "3 postgresql.rights: role 'looker' lacks one of SELECT, INSERT, "
                           "UPDATE, DELETE on: run\n");
    postgres_do("GRANT DELETE ON \"%s\".run TO looker");
    checks_read(looker, &checks);
    checks_expect(&checks, "1 postgresql.rights: ");
    postgres_do("DROP OWNED BY looker");
}

/* Who only asks can open a database that takes no writes, so it is told. */
static void test_read_only_database(void **state)
{
    struct checks checks;
    struct cf_world *world = *state;
    (void)cf_open(world, "node");
    struct cf_node *desk =
        open_as(world, "postgres", "&options=-cdefault_transaction_read_only%3Don");
    checks_read(desk, &checks);
    checks_expect(&checks, "3 postgresql.rights: the database takes no writes");
}

/* What a crash of the host can take is an error; of that there are two settings. */
static void test_durability(void **state)
{
    static const char *const settings[] = {"fsync", "full_page_writes"};
    struct checks checks;
    struct cf_node *node = cf_open(*state, "node");
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        char setting[64];
        (void)snprintf(setting, sizeof setting, "%s = off", settings[i]);
        set(setting);
        checks_await(node, &checks, "3 postgresql.durability: 'fsync' or 'full_page_writes' is");
        (void)snprintf(setting, sizeof setting, "%s = on", settings[i]);
        set(setting);
        checks_await(node, &checks, "1 postgresql.durability: ");
    }
}

/* Each node needs connections, and one to come back with. */
static void test_few_connections(void **state)
{
    enum { MANY = 25 };
    PGconn *conns[MANY];
    struct checks checks;
    struct cf_node *node = cf_open(*state, "node");
    for (int i = 0; i < MANY; i++) {
        conns[i] = i < 20 ? postgres_connect() : NULL;
    }
    checks_read(node, &checks);
    for (int i = 0; i < MANY; i++) {
        PQfinish(conns[i]);
    }
    checks_expect(&checks, "2 postgresql.connections: ");
    checks_contain(&checks, "raise 'max_connections'");
    checks_await(node, &checks, "1 postgresql.connections: ");
}

/* Row mode, which nobody should be in without knowing. */
static void test_row_mode(void **state)
{
    struct checks checks;
    postgres_options = "&jobsched_mode=row";
    struct cf_world *world = *state;
    postgres_url(world->url, sizeof world->url, "postgres", postgres_options);
    checks_read(cf_open(world, "node"), &checks);
    checks_expect(&checks, "1 postgresql.mode: row mode: who is alive is seen by heartbeats");
}

/* A server older than 14, of which there is none here: one that says that it is. In row mode the
 * session's search_path is the user's. */
static void test_old_server(void **state)
{
    struct checks checks;
    struct cf_world *world = *state;
    (void)cf_open(world, "node");
    postgres_do("CREATE FUNCTION \"%s\".current_setting(name text) RETURNS text LANGUAGE sql AS $$"
                " SELECT CASE WHEN name = 'server_version_num' THEN '130011' ELSE"
                " pg_catalog.current_setting(name) END $$");
    char options[160];
    (void)snprintf(options, sizeof options,
                   "&jobsched_mode=row&options=-csearch_path%%3D%s,pg_catalog", postgres_schema);
    checks_read(open_as(world, "postgres", options), &checks);
    checks_expect(&checks, "2 postgresql.timeouts: the server is older than 14");
}

/* A change of server is told for a day, and that nothing is granted as long as that is so. */
static void test_failover(void **state)
{
    struct checks checks;
    struct cf_node *node = cf_open(*state, "node");
    postgres_do("UPDATE \"%s\".meta SET epoch = 3, lost_at_ms = \"%s\".now_ms() - 300000,"
                " quarantine_until_ms = \"%s\".now_ms() + 60000");
    checks_read(node, &checks);
    checks_expect(&checks, "2 postgresql.failover: the server has been another one for 5 min "
                           "(epoch 3), and nothing is granted until");
    postgres_do("UPDATE \"%s\".meta SET quarantine_until_ms = \"%s\".now_ms() - 1");
    checks_read(node, &checks);
    checks_expect(&checks, "2 postgresql.failover: the server has been another one for 5 min "
                           "(epoch 3); pauses");
    postgres_do("UPDATE \"%s\".meta SET floor_ms = \"%s\".now_ms() + 90000");
    checks_read(node, &checks);
    checks_expect(&checks, "2 postgresql.failover: the server has been another one for 5 min "
                           "(epoch 3), its clock is behind and for");
    postgres_do("UPDATE \"%s\".meta SET lost_at_ms = \"%s\".now_ms() + 300000"); /* set back */
    checks_read(node, &checks);
    checks_expect(&checks, "2 postgresql.failover: the server has been another one for 0 min ");
    postgres_do("UPDATE \"%s\".meta SET lost_at_ms = \"%s\".now_ms() - 86460000");
    checks_read(node, &checks);
    checks_expect(&checks, "1 postgresql.failover: ");
}

/* A replica that may lag behind may forget when it is promoted. */
static void test_replicas(void **state)
{
    struct checks checks;
    struct cf_node *node = cf_open(*state, "node");
    cf_equal(postgres_script("standby", standby, primary), 0);
    checks_await(node, &checks, "2 postgresql.replicas: the replicas are asynchronous");
    checks_contain(&checks, "'synchronous_standby_names'");
    set("synchronous_standby_names = '*'");
    checks_await(node, &checks, "1 postgresql.replicas: there are synchronous replicas");
    set("synchronous_standby_names = ''");
    checks_await(node, &checks, "2 postgresql.replicas: ");
    (void)postgres_script("remove", standby, "");
    checks_await(node, &checks, "1 postgresql.replicas: there are no replicas");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, postgres_set_up, tear_down)
        TEST(test_all_is_well), TEST(test_missing_rights),  TEST(test_read_only_database),
        TEST(test_durability),  TEST(test_few_connections), TEST(test_row_mode),
        TEST(test_old_server),  TEST(test_failover),        TEST(test_replicas),
    };
    if (argc > 2) {
        cmocka_set_test_filter(argv[2]);
    }
    return cmocka_run_group_tests(tests, start_server, remove_servers) ? 1 : 0;
}
