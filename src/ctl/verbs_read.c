/* verbs_read.c: jobs, show, runs and nodes: what the cluster knows. They change nothing. No locks. */
#include "ctl/cluster.h"
#include "ctl/instant.h"
#include "ctl/record.h"
#include "ctl/text.h"

#include <inttypes.h>
#include <string.h>

/* The longest name with each byte escaped; a table is to show all of it. */
#define CELL_BYTES (4 * JOBSCHED_NAME_BYTES + 1)

/* What a visitor fills: a table, or a list for JSON. */
typedef struct ctl_listing {
    const ctl_request *request;
    ctl_table *table;
    json_t *list;
    int64_t now_ms;
    size_t count;
    int failed;
} ctl_listing;

/* ---- rows ---- */

static int add_job(const jobsched_job_record *job, void *user_data)
{
    ctl_listing *listing = user_data;
    const char *zone = listing->request->zone;
    char text[6][CELL_BYTES];
    int64_t last_ms = job->has_last ? job->last_scheduled_at_ms : JOBSCHED_NONE;

    if (job->removed && !listing->request->all) {
        return 0;
    }
    listing->count++;
    if (listing->request->json) {
        listing->failed |= json_array_append_new(listing->list, ctl_job_json(job));
        return listing->failed;
    }
    ctl_when(zone, job->next_at_ms, text[2], sizeof text[2]);
    ctl_how_long(listing->now_ms, job->next_at_ms, text[3], sizeof text[3]);
    ctl_when(zone, last_ms, text[4], sizeof text[4]);
    const char *node = job->running > 0 ? job->running_node : job->has_last ? job->last_node : "";
    const char *cells[] = {
        ctl_text_cell(job->job, text[0], sizeof text[0]),
        ctl_job_state(job),
        ctl_text_cell(job->schedule, text[1], sizeof text[1]),
        text[2],
        text[3],
        text[4],
        job->has_last ? jobsched_outcome_name(job->last_outcome) : "-",
        node[0] == '\0' ? "-" : ctl_text_cell(node, text[5], sizeof text[5]),
    };
    ctl_table_row(listing->table, cells);
    return 0;
}

static int add_run(const jobsched_run_record *run, void *user_data)
{
    ctl_listing *listing = user_data;
    const char *zone = listing->request->zone;
    char text[8][CELL_BYTES];

    listing->count++;
    if (listing->request->json) {
        listing->failed |= json_array_append_new(listing->list, ctl_run_json(run));
        return listing->failed;
    }
    ctl_when(zone, run->scheduled_at_ms, text[0], sizeof text[0]);
    ctl_when(zone, run->started_at_ms, text[2], sizeof text[2]);
    ctl_how_long(run->started_at_ms, run->finished_at_ms, text[3], sizeof text[3]);
    (void)snprintf(text[4], sizeof text[4], "%" PRIu64, run->token);
    if (run->count > 1) {
        (void)snprintf(text[7], sizeof text[7], "%s x%" PRIu64, jobsched_outcome_name(run->outcome),
                       run->count);
    } else {
        (void)snprintf(text[7], sizeof text[7], "%s", jobsched_outcome_name(run->outcome));
    }
    const char *cells[] = {
        text[0],
        ctl_text_cell(run->job, text[1], sizeof text[1]),
        jobsched_kind_name(run->kind),
        text[7],
        text[2],
        text[3],
        run->node[0] == '\0' ? "-" : ctl_text_cell(run->node, text[5], sizeof text[5]),
        run->token == 0 ? "-" : text[4],
        ctl_text_cell(run->note, text[6], sizeof text[6]),
    };
    ctl_table_row(listing->table, cells);
    return 0;
}

static int add_node(const jobsched_node_record *node, void *user_data)
{
    ctl_listing *listing = user_data;
    char text[8][CELL_BYTES];

    listing->count++;
    if (listing->request->json) {
        listing->failed |= json_array_append_new(listing->list, ctl_node_json(node));
        return listing->failed;
    }
    ctl_when(listing->request->zone, node->since_at_ms, text[2], sizeof text[2]);
    ctl_how_long(node->beat_at_ms, listing->now_ms, text[3], sizeof text[3]);
    (void)snprintf(text[4], sizeof text[4], "%+" PRId64 "ms", node->clock_offset_ms);
    (void)snprintf(text[5], sizeof text[5], "%" PRIu64, node->jobs);
    (void)snprintf(text[6], sizeof text[6], "%" PRIu64, node->runs);
    (void)snprintf(text[7], sizeof text[7], "%" PRIu64, node->dissent);
    const char *cells[] = {
        ctl_text_cell(node->name, text[0], sizeof text[0]),
        node->app_version[0] == '\0' ? "-"
                                     : ctl_text_cell(node->app_version, text[1], sizeof text[1]),
        text[2],
        text[3],
        text[4],
        text[5],
        text[6],
        text[7],
    };
    ctl_table_row(listing->table, cells);
    return 0;
}

/* ---- listings ---- */

static ctl_listing begin(const ctl_request *request, const char *const *columns,
                         size_t column_count)
{
    ctl_listing made = {.request = request, .now_ms = ctl_now_ms()};

    if (request->json) {
        made.list = json_array();
        made.failed = made.list == NULL;
    } else {
        made.table = ctl_table_new(columns, column_count);
    }
    return made;
}

static void drop(ctl_listing *listing)
{
    json_decref(listing->list);
    ctl_table_free(listing->table);
}

/* none: what to say in place of an empty table. */
static int end(ctl_listing *listing, const char *member, const char *none)
{
    json_t *root;

    if (!listing->request->json) {
        if (listing->count > 0) {
            return ctl_table_print(listing->table);
        }
        ctl_table_free(listing->table);
        (void)puts(none);
        return CTL_OK;
    }
    root = json_object();
    if (listing->failed || ctl_json_value(root, member, listing->list) != 0) {
        json_decref(root);
        root = NULL;
    }
    return ctl_json_print(root);
}

static int show_jobs(const ctl_request *request, jobsched *cluster)
{
    static const char *const columns[] = {"JOB",  "STATE", "SCHEDULE", "NEXT",
                                          "LEFT", "LAST",  "OUTCOME",  "NODE"};
    ctl_listing listing = begin(request, columns, sizeof columns / sizeof columns[0]);

    int code = jobsched_jobs(cluster, NULL, add_job, &listing);
    if (code == JOBSCHED_OK && request->all) {
        /* The library's own is listed only when it is asked for. */
        code = jobsched_jobs(cluster, "jobsched:leader", add_job, &listing);
        code = code == JOBSCHED_ENOTFOUND ? JOBSCHED_OK : code;
    }
    if (code != JOBSCHED_OK) {
        drop(&listing);
        return ctl_library(request);
    }
    return end(&listing, "jobs", "no jobs");
}

static const char *const run_columns[] = {"SCHEDULED", "JOB",  "KIND",  "OUTCOME", "STARTED",
                                          "TOOK",      "NODE", "TOKEN", "NOTE"};
#define RUN_COLUMNS (sizeof run_columns / sizeof run_columns[0])

static int ignore_job(const jobsched_job_record *job, void *user_data)
{
    (void)job;
    (void)user_data;
    return 0;
}

static int show_runs(const ctl_request *request, jobsched *cluster)
{
    const char *job = request->argument_count > 0 ? request->arguments[0] : NULL;
    ctl_listing listing = begin(request, run_columns, RUN_COLUMNS);

    if (jobsched_runs(cluster, job, request->count, add_run, &listing) != JOBSCHED_OK) {
        drop(&listing);
        return ctl_library(request);
    }
    /* No runs of a job that nobody knows is another answer. */
    if (job != NULL && listing.count == 0 &&
        jobsched_jobs(cluster, job, ignore_job, NULL) == JOBSCHED_ENOTFOUND) {
        drop(&listing);
        return ctl_library(request);
    }
    return end(&listing, "runs", "no runs");
}

static int show_nodes(const ctl_request *request, jobsched *cluster)
{
    static const char *const columns[] = {"NODE",   "VERSION", "SINCE", "BEAT AGO",
                                          "OFFSET", "JOBS",    "RUNS",  "DISSENT"};
    ctl_listing listing = begin(request, columns, sizeof columns / sizeof columns[0]);

    if (jobsched_nodes(cluster, add_node, &listing) != JOBSCHED_OK) {
        drop(&listing);
        return ctl_library(request);
    }
    return end(&listing, "nodes", "no nodes");
}

/* ---- show ---- */

static void print_line(const char *label, const char *value)
{
    (void)printf("%-11s ", label);
    ctl_text_print(stdout, value);
    (void)fputc('\n', stdout);
}

static void print_instant(const ctl_listing *listing, const char *label, int64_t at_ms)
{
    char when[CELL_BYTES], left[CELL_BYTES], line[2 * CELL_BYTES + 8];

    ctl_when(listing->request->zone, at_ms, when, sizeof when);
    if (at_ms == JOBSCHED_NONE) {
        (void)snprintf(line, sizeof line, "-");
    } else if (at_ms >= listing->now_ms) {
        ctl_how_long(listing->now_ms, at_ms, left, sizeof left);
        (void)snprintf(line, sizeof line, "%s (in %s)", when, left);
    } else {
        ctl_how_long(at_ms, listing->now_ms, left, sizeof left);
        (void)snprintf(line, sizeof line, "%s (%s ago)", when, left);
    }
    print_line(label, line);
}

static int print_job(const jobsched_job_record *job, void *user_data)
{
    ctl_listing *listing = user_data;
    char line[2 * CELL_BYTES + 80], when[CELL_BYTES];

    if (listing->request->json) {
        listing->failed |= ctl_json_value(listing->list, "job", ctl_job_json(job));
        return listing->failed;
    }
    print_line("job", job->job);
    print_line("state", ctl_job_state(job));
    print_line("schedule", job->schedule);
    print_line("zone", job->timezone[0] == '\0' ? "UTC" : job->timezone);
    (void)snprintf(line, sizeof line, "%" PRIu64 ", generation %" PRIu64, job->version,
                   job->generation);
    print_line("version", line);
    (void)snprintf(line, sizeof line, "%" PRIu64 "%s", job->nodes,
                   ctl_job_is_orphaned(job) ? ": orphaned, nobody runs it" : "");
    print_line("nodes", line);
    if (job->dissent > 0) {
        (void)snprintf(line, sizeof line, "%" PRIu64 " of them with another definition",
                       job->dissent);
        print_line("", line);
    }
    print_instant(listing, "next", job->next_at_ms);
    print_instant(listing, "mark", job->mark_at_ms);
    print_instant(listing, "last end", job->last_end_at_ms);
    (void)snprintf(line, sizeof line, "%" PRIu64, job->token);
    print_line("last token", line);
    if (job->running > 0) {
        ctl_when(listing->request->zone, job->running_since_at_ms, when, sizeof when);
        (void)snprintf(line, sizeof line, "%" PRIu64 ": at %s since %s (token %" PRIu64 ")",
                       job->running, job->running_node, when, job->running_token);
        print_line("running", line);
    }
    if (job->waiting > 0) {
        (void)snprintf(line, sizeof line, "%" PRIu64 " triggers", job->waiting);
        print_line("waiting", line);
    }
    return 0;
}

static int show_json(const ctl_request *request, jobsched *cluster, json_t *root)
{
    ctl_listing job = {.request = request, .list = root};
    ctl_listing runs = begin(request, NULL, 0);

    if (jobsched_jobs(cluster, request->arguments[0], print_job, &job) != JOBSCHED_OK ||
        jobsched_runs(cluster, request->arguments[0], request->count, add_run, &runs) !=
            JOBSCHED_OK) {
        json_decref(runs.list);
        json_decref(root);
        return ctl_library(request);
    }
    if ((job.failed | runs.failed | ctl_json_value(root, "runs", runs.list)) != 0) {
        json_decref(root);
        root = NULL;
    }
    return ctl_json_print(root);
}

static int show_job(const ctl_request *request, jobsched *cluster)
{
    ctl_listing job = {.request = request, .now_ms = ctl_now_ms()};

    if (request->json) {
        return show_json(request, cluster, json_object());
    }
    if (jobsched_jobs(cluster, request->arguments[0], print_job, &job) != JOBSCHED_OK) {
        return ctl_library(request);
    }
    (void)fputc('\n', stdout);
    return show_runs(request, cluster);
}

static int run_jobs(const ctl_request *request)
{
    return ctl_cluster_watch(request, show_jobs);
}

static int run_show(const ctl_request *request)
{
    return ctl_cluster_watch(request, show_job);
}

static int run_runs(const ctl_request *request)
{
    return ctl_cluster_watch(request, show_runs);
}

static int run_nodes(const ctl_request *request)
{
    return ctl_cluster_watch(request, show_nodes);
}

const ctl_verb ctl_read_verbs[] = {
    {"jobs", "", "the jobs of the cluster", "lLNazwj", 0, 0, run_jobs},
    {"show", "JOB", "all about one job, and its last runs", "lLNnzwj", 1, 1, run_show},
    {"runs", "[JOB]", "the ledger, newest first", "lLNnzwj", 0, 1, run_runs},
    {"nodes", "", "the live nodes of the cluster", "lLNzwj", 0, 0, run_nodes},
    {NULL, NULL, NULL, NULL, 0, 0, NULL},
};
