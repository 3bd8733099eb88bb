/* single.c: the driver of single:, a lock backend in memory for one process. Everything is
 * granted that the contract does not refuse. Each open handle is a store and a node of its
 * own; nothing outlives it, and its clock is the injected one.
 * Locks: takes store->mutex; never held while user code is called. */
#include "store.h"

#include <errno.h>

static int check_url(const char *url)
{
    static const char scheme[] = "single:";
    if (url == NULL || strncmp(url, scheme, sizeof scheme - 1) != 0) {
        return jobsched_fail(JOBSCHED_EINVAL, 0, "the lock URL does not begin with 'single:'");
    }
    const char *rest = url + sizeof scheme - 1;
    if (rest[0] == '\0' || strcmp(rest, "//") == 0) {
        return JOBSCHED_OK;
    }
    if (strchr(rest, '@') != NULL) {
        return jobsched_fail(JOBSCHED_EINVAL, 0,
                             "nothing may follow 'single:' (what does is not shown: it may hold a "
                             "password)");
    }
    return jobsched_fail(JOBSCHED_EINVAL, 0, "'%s' may not follow 'single:', only '//' or nothing",
                         rest);
}

static int open_single(const jobsched_backend_config *config, void **out_backend)
{
    int code = check_url(config->url);
    if (code != JOBSCHED_OK) {
        return code;
    }
    struct store *store = config->allocator.allocate(config->allocator.ctx, sizeof *store);
    if (store == NULL) {
        return jobsched_fail(JOBSCHED_ENOMEM, 0, "no memory for %zu bytes", sizeof *store);
    }
    memset(store, 0, sizeof *store);
    store->config = *config;
    jsi_single_list_init(&store->rows);
    jsi_single_list_init(&store->pending);
    jsi_single_list_init(&store->closed);
    int failure = pthread_mutex_init(&store->mutex, NULL);
    if (failure != 0) {
        jsi_single_release(store, store);
        return jobsched_fail(JOBSCHED_EOS, failure, "a mutex for 'single:' could not be made");
    }
    store->since_ms = store->config.clock.wall_ms(store->config.clock.ctx);
    store->beat_ms = store->since_ms;
    jsi_single_alone_enter(store);
    *out_backend = store;
    return JOBSCHED_OK;
}

static void close_single(void *backend)
{
    struct store *store = backend;
    if (store == NULL) {
        return;
    }
    jsi_single_alone_leave(store);
    jsi_single_store_clear(store);
    (void)pthread_mutex_destroy(&store->mutex);
    jsi_single_release(store, store);
}

static int64_t lock_and_read_clock(struct store *store)
{
    (void)pthread_mutex_lock(&store->mutex);
    return store->config.clock.wall_ms(store->config.clock.ctx);
}

static int unlock_and_answer(struct store *store, jobsched_call *call, int code, int64_t now_ms)
{
    (void)pthread_mutex_unlock(&store->mutex);
    if (code == JOBSCHED_OK) {
        call->now_ms = now_ms;
    }
    return code;
}

static struct fence *create_fence(struct store *store, const jobsched_announcement *item,
                                  int64_t now_ms)
{
    struct fence *fence = jsi_single_fence_new(store, item->job, item->definition);
    if (fence != NULL) {
        fence->version = item->version;
        fence->generation = 1;
        fence->mark_ms = now_ms; /* what was due before the job existed was never missed */
        jsi_single_fence_enter(store, fence);
    }
    return fence;
}

static int replace_definition(struct store *store, struct fence *fence,
                              const jobsched_announcement *item, int64_t now_ms)
{
    char *definition = jsi_single_copy(store, item->definition);
    if (definition == NULL) {
        return JOBSCHED_ENOMEM;
    }
    jsi_single_release(store, fence->definition);
    fence->definition = definition;
    fence->generation++;
    if (fence->mark_ms < now_ms) {
        fence->mark_ms = now_ms; /* G7: an edit never creates a past occurrence */
    }
    if (item->version > fence->version) {
        fence->removed = 0;
    }
    fence->version = item->version;
    return JOBSCHED_OK;
}

/* Whether the definition in force may go at once: nothing that it has due would be lost, and no removal
 * is undone that came after the node asked. */
static int may_replace(const struct fence *fence, const jobsched_announcement *item, int64_t now_ms)
{
    switch (item->replace) {
    case JOBSCHED_REPLACE_ASK:
        return fence->removed;
    case JOBSCHED_REPLACE_IF:
        return !fence->removed && fence->generation == item->replaces &&
               fence->mark_ms == item->after_ms && now_ms < item->before_ms;
    default:
        return 1;
    }
}

static int announce_known(struct store *store, struct fence *fence, jobsched_announcement *item,
                          int64_t now_ms)
{
    int differs = strcmp(item->definition, fence->definition) != 0;
    if (item->version < fence->version || (item->version == fence->version && !differs)) {
        return JOBSCHED_OK;
    }
    if (!may_replace(fence, item, now_ms)) {
        item->pending = 1;
        return JOBSCHED_OK;
    }
    item->conflict = item->version == fence->version && item->version > 0;
    return replace_definition(store, fence, item, now_ms);
}

static int announce_one(struct store *store, jobsched_announcement *item, int64_t now_ms)
{
    struct fence *fence = jsi_single_fence_find(store, item->job);
    int code = JOBSCHED_OK;
    item->conflict = 0;
    item->pending = 0;
    if (fence == NULL) {
        fence = create_fence(store, item, now_ms);
        code = fence == NULL ? JOBSCHED_ENOMEM : JOBSCHED_OK;
    } else {
        code = announce_known(store, fence, item, now_ms);
    }
    if (code != JOBSCHED_OK) {
        return code;
    }
    item->in_force = item->version == fence->version && !item->pending;
    fence->registered = 1;
    fence->dissents = !item->in_force;
    item->generation = fence->generation;
    item->mark_ms = fence->mark_ms;
    item->last_end_ms = fence->last_end_ms;
    item->paused = fence->paused;
    item->removed = fence->removed;
    return JOBSCHED_OK;
}

static int announce(void *backend, jobsched_call *call, jobsched_announcement *items, size_t count)
{
    struct store *store = backend;
    int code = JOBSCHED_OK;
    int64_t now_ms = lock_and_read_clock(store);
    for (size_t i = 0; i < count && code == JOBSCHED_OK; i++) {
        code = jsi_single_batch_code(announce_one(store, &items[i], now_ms), i, count);
    }
    return unlock_and_answer(store, call, code, now_ms);
}

static struct row *find_running(const struct fence *fence, uint64_t token)
{
    for (struct link *link = fence->open.next; link != &fence->open; link = link->next) {
        struct row *row = LINK_OWNER(link, struct row, in_fence_state);
        if (row->outcome == JOBSCHED_OUTCOME_RUNNING && row->token == token) {
            return row;
        }
    }
    return NULL;
}

/* Whether an earlier try of the same finish was recorded. Newest first, since such a
 * repetition follows its first try at once. */
static int is_recorded(const struct fence *fence, const jobsched_finish *item)
{
    for (struct link *link = fence->rows.previous; link != &fence->rows; link = link->previous) {
        const struct row *row = LINK_OWNER(link, struct row, in_fence);
        if (row->token == item->token) {
            return row->outcome == item->outcome && row->code == item->code;
        }
    }
    return 0;
}

/* Keeps what the run reported last. Changes nothing when memory runs out. */
static int report(struct store *store, struct row *row, const char *note, uint64_t done,
                  uint64_t total)
{
    const char *old = row->note == NULL ? "" : row->note;
    if (note != NULL && strcmp(old, note) != 0) {
        char *copy = NULL;
        if (note[0] != '\0') {
            copy = jsi_single_copy(store, note);
            if (copy == NULL) {
                return JOBSCHED_ENOMEM;
            }
        }
        jsi_single_release(store, row->note);
        row->note = copy;
    }
    row->progress_done = done;
    row->progress_total = total;
    return JOBSCHED_OK;
}

static int finish_one(struct store *store, jobsched_finish *item, int64_t now_ms)
{
    if (item->outcome < JOBSCHED_OUTCOME_SUCCEEDED ||
        item->outcome > JOBSCHED_OUTCOME_INTERRUPTED) {
        return jobsched_fail(JOBSCHED_EINVAL, 0, "outcome '%d' of job '%s' is outside %d-%d",
                             (int)item->outcome, item->job, JOBSCHED_OUTCOME_SUCCEEDED,
                             JOBSCHED_OUTCOME_INTERRUPTED);
    }
    struct fence *fence = jsi_single_fence_find(store, item->job);
    struct row *row = fence == NULL ? NULL : find_running(fence, item->token);
    if (row == NULL) {
        item->answer =
            fence != NULL && is_recorded(fence, item) ? JOBSCHED_LEASE_KEPT : JOBSCHED_LEASE_GONE;
        return JOBSCHED_OK;
    }
    int code = report(store, row, item->note, item->progress_done, item->progress_total);
    if (code != JOBSCHED_OK) {
        return code;
    }
    row->code = item->code;
    jsi_single_row_become(store, row, item->outcome, now_ms);
    fence->last_end_ms = now_ms;
    jsi_single_prune(store, fence, now_ms);
    item->answer = JOBSCHED_LEASE_KEPT;
    return JOBSCHED_OK;
}

static int finish(void *backend, jobsched_call *call, jobsched_finish *items, size_t count)
{
    struct store *store = backend;
    int code = JOBSCHED_OK;
    int64_t now_ms = lock_and_read_clock(store);
    for (size_t i = 0; i < count && code == JOBSCHED_OK; i++) {
        code = jsi_single_batch_code(finish_one(store, &items[i], now_ms), i, count);
    }
    return unlock_and_answer(store, call, code, now_ms);
}

/* One node and one process: a lease lasts as long as its run, so there is no heartbeat. */
static int renew(void *backend, jobsched_call *call, int64_t clock_offset_ms, jobsched_lease *items,
                 size_t count)
{
    struct store *store = backend;
    int code = JOBSCHED_OK;
    int64_t now_ms = lock_and_read_clock(store);
    store->beat_ms = now_ms;
    store->offset_ms = clock_offset_ms;
    for (size_t i = 0; i < count && code == JOBSCHED_OK; i++) {
        jobsched_lease *item = &items[i];
        struct fence *fence = jsi_single_fence_find(store, item->job);
        struct row *row = fence == NULL ? NULL : find_running(fence, item->token);
        if (row == NULL) {
            item->answer = JOBSCHED_LEASE_GONE;
            continue;
        }
        code = report(store, row, item->note, item->progress_done, item->progress_total);
        code = jsi_single_batch_code(code, i, count);
        item->answer = row->cancel ? JOBSCHED_LEASE_CANCEL : JOBSCHED_LEASE_KEPT;
    }
    return unlock_and_answer(store, call, code, now_ms);
}

static int count_waiting(const struct fence *fence)
{
    int count = 0;
    for (struct link *link = fence->open.next; link != &fence->open; link = link->next) {
        count += LINK_OWNER(link, struct row, in_fence_state)->outcome == JOBSCHED_OUTCOME_WAITING;
    }
    return count;
}

static int trigger(struct store *store, struct fence *fence, const char *request, int64_t now_ms,
                   int32_t *out_changed)
{
    if (request == NULL || request[0] == '\0') {
        return jobsched_fail(JOBSCHED_EINVAL, 0, "a trigger of job '%s' lacks its request id",
                             fence->name);
    }
    if (jsi_single_row_find(fence, request) != NULL) {
        return JOBSCHED_OK; /* an earlier try of this call has added it */
    }
    if (fence->paused) {
        return jobsched_fail(JOBSCHED_ESTATE, 0, "job '%s' is paused; resume it first",
                             fence->name);
    }
    int waiting = count_waiting(fence);
    if (waiting >= JOBSCHED_WAITING_MAX) {
        return jobsched_fail(JOBSCHED_EREFUSED, 0, "job '%s' has %d waiting triggers, at most %d",
                             fence->name, waiting, JOBSCHED_WAITING_MAX);
    }
    struct row *row = jsi_single_row_new(store, fence, request);
    if (row == NULL) {
        return JOBSCHED_ENOMEM;
    }
    row->kind = JOBSCHED_KIND_TRIGGER;
    row->first_ms = now_ms;
    row->last_ms = now_ms;
    *out_changed = 1;
    return JOBSCHED_OK;
}

static int32_t cancel_runs(struct fence *fence)
{
    int32_t changed = 0;
    for (struct link *link = fence->open.next; link != &fence->open; link = link->next) {
        struct row *row = LINK_OWNER(link, struct row, in_fence_state);
        if (row->outcome == JOBSCHED_OUTCOME_RUNNING && !row->cancel) {
            row->cancel = 1;
            changed = 1;
        }
    }
    return changed;
}

/* Runs go on; what was still to be granted ends here, so that it does not come back when
 * a larger version lifts the tombstone much later. */
static int32_t bury(struct store *store, struct fence *fence, int64_t now_ms)
{
    if (fence->removed) {
        return 0;
    }
    fence->removed = 1;
    struct link *link = fence->open.next;
    while (link != &fence->open) {
        struct row *row = LINK_OWNER(link, struct row, in_fence_state);
        link = link->next; /* the row may leave this list below, never enters it again */
        if (row->outcome == JOBSCHED_OUTCOME_WAITING) {
            jsi_single_row_become(store, row, JOBSCHED_OUTCOME_CANCELLED, now_ms);
        } else if (row->outcome == JOBSCHED_OUTCOME_INTERRUPTED) {
            jsi_single_row_become(store, row, row->outcome, row->finished_ms);
        }
    }
    jsi_single_prune(store, fence, now_ms);
    return 1;
}

static int obey(struct store *store, struct fence *fence, const jobsched_command *command,
                int64_t now_ms, int32_t *out_changed)
{
    switch (command->verb) {
    case JOBSCHED_VERB_PAUSE:
        *out_changed = !fence->paused;
        fence->paused = 1;
        return JOBSCHED_OK;
    case JOBSCHED_VERB_RESUME:
        *out_changed = fence->paused;
        fence->paused = 0;
        return JOBSCHED_OK;
    case JOBSCHED_VERB_TRIGGER:
        return trigger(store, fence, command->request, now_ms, out_changed);
    case JOBSCHED_VERB_CANCEL:
        *out_changed = cancel_runs(fence);
        return JOBSCHED_OK;
    case JOBSCHED_VERB_REMOVE:
        *out_changed = bury(store, fence, now_ms);
        return JOBSCHED_OK;
    default:
        return jobsched_fail(JOBSCHED_EINVAL, 0, "verb '%d' is outside 1-5", (int)command->verb);
    }
}

static void tell(const struct store *store, const struct fence *fence, int32_t changed,
                 jobsched_control_result *out)
{
    out->changed = changed;
    out->running = 0;
    out->token = fence->token;
    out->since_at_ms = JOBSCHED_NONE;
    out->run_token = 0;
    memset(out->node, 0, sizeof out->node);
    for (struct link *link = fence->open.next; link != &fence->open; link = link->next) {
        const struct row *row = LINK_OWNER(link, struct row, in_fence_state);
        if (row->outcome == JOBSCHED_OUTCOME_RUNNING) {
            out->running = 1;
            out->since_at_ms = row->started_ms;
            out->run_token = row->token;
            size_t bytes = strlen(store->config.node_name);
            memcpy(out->node, store->config.node_name,
                   bytes < JOBSCHED_NAME_BYTES ? bytes : JOBSCHED_NAME_BYTES);
            return;
        }
    }
}

static int control(void *backend, jobsched_call *call, const jobsched_command *command,
                   jobsched_control_result *out_result)
{
    struct store *store = backend;
    int32_t changed = 0;
    int code;
    int64_t now_ms = lock_and_read_clock(store);
    struct fence *fence = jsi_single_fence_find(store, command->job);
    if (fence == NULL || (fence->removed && command->verb != JOBSCHED_VERB_REMOVE)) {
        code = jobsched_fail(JOBSCHED_ENOTFOUND, 0, "no job '%s' in namespace '%s'", command->job,
                             store->config.name_space);
    } else {
        code = obey(store, fence, command, now_ms, &changed);
    }
    if (code == JOBSCHED_OK && out_result != NULL) {
        tell(store, fence, changed, out_result);
    }
    return unlock_and_answer(store, call, code, now_ms);
}

const jobsched_backend *jobsched_backend_single(void)
{
    static const jobsched_backend driver = {
        .abi = JOBSCHED_BACKEND_ABI,
        .capabilities = 0,
        .scheme = "single",
        .open = open_single,
        .close = close_single,
        .announce = announce,
        .claim = jsi_single_claim,
        .finish = finish,
        .renew = renew,
        .reap = jsi_single_reap,
        .control = control,
        .runs = jsi_single_runs,
        .find = jsi_single_find,
        .jobs = jsi_single_jobs,
        .nodes = jsi_single_nodes,
        .withdraw = jsi_single_withdraw,
        .check = jsi_single_check,
    };
    return &driver;
}
