/* chaos.c: the nodes of a campaign, and what happens to them, their ways and their store. A node
 * suffers one fault at a time; so does the store. Locks: none, one thread. */
#include "campaign.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const names[FAULTS] = {"",
                                          "kill -9",
                                          "freeze",
                                          "leave",
                                          "cut",
                                          "cut around a claim",
                                          "black hole",
                                          "drop",
                                          "slow link",
                                          "half-open (server gone)",
                                          "half-open (node gone)",
                                          "sessions ended",
                                          "server killed",
                                          "server frozen",
                                          "store locked"};

const char *chaos_name(int fault)
{
    return names[fault];
}

uint64_t campaign_random(campaign *c, uint64_t below)
{
    c->random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t value = c->random;
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (value ^ (value >> 31)) % below;
}

/* ---- nodes ----------------------------------------------------------------------- */

static void spawn(campaign *c, slot *at)
{
    fleet *f = c->f;
    f->url = at->link == NULL ? NULL : at->url;
    at->node = fleet_spawn(f, (int64_t)campaign_random(c, 180001) - 90000, FLEET_PATIENT);
    f->url = NULL;
}

void chaos_begin(campaign *c)
{
    fleet *f = c->f;
    for (size_t i = 0; i < SLOTS; i++) {
        slot *at = &c->slots[i];
        at->fault = -1;
        if (f->server.kind != SERVER_SQLITE && !f->server.foreign) {
            at->link = proxy_start(NULL, f->server.socket);
            assert_non_null(at->link);
            server_url_of_port(&f->server, proxy_port(at->link), at->url, sizeof at->url);
            if (f->server.kind == SERVER_POSTGRESQL && c->only < 0) {
                /* What docs/backends.md advises where sessions may be lost one-sidedly. */
                size_t used = strlen(at->url);
                (void)snprintf(at->url + used, sizeof at->url - used, "&jobsched_grace=3s");
            }
        }
        spawn(c, at);
    }
    c->store_fault = -1;
}

static void ask_to_leave(campaign *c, fleet_node *node, const char *drain)
{
    fleet_send(node, drain);
    fleet_send(node, "exit");
    c->leaving[c->leaving_count++] = node;
}

void chaos_replace(campaign *c, size_t i, bool kill)
{
    slot *at = &c->slots[i];
    fleet_node *old = at->node;
    if (kill && old != NULL) {
        fleet_kill(old);
        c->faults[FAULT_KILL]++;
    }
    spawn(c, at);
    if (!kill && old != NULL) {
        ask_to_leave(c, old, "drain 4000");
    }
}

void chaos_fell(campaign *c)
{
    for (size_t i = 0; i < SLOTS; i++) {
        fleet_kill(c->slots[i].node);
        c->slots[i].node = NULL;
        c->faults[FAULT_KILL]++;
    }
}

static bool is_gone(fleet_node *node, int *status)
{
    return node->pid == 0 || waitpid(node->pid, status, WNOHANG) == node->pid;
}

static void forget(fleet_node *node)
{
    (void)close(node->to);
    (void)close(node->from);
    node->pid = 0;
}

/* Those that left, and none that did by itself. */
void chaos_reap(campaign *c)
{
    int status = 0;
    size_t kept = 0;
    for (size_t i = 0; i < c->leaving_count; i++) {
        if (!is_gone(c->leaving[i], &status)) {
            c->leaving[kept++] = c->leaving[i];
            continue;
        }
        if (status != 0) {
            fail_msg("node %d ended with status %d, signal %d", c->leaving[i]->index,
                     WEXITSTATUS(status), WTERMSIG(status));
        }
        forget(c->leaving[i]);
    }
    c->leaving_count = kept;
    for (size_t i = 0; i < SLOTS; i++) {
        fleet_node *node = c->slots[i].node;
        if (node != NULL && is_gone(node, &status)) {
            fail_msg("node %d ended by itself, status %d, signal %d", node->index,
                     WEXITSTATUS(status), WTERMSIG(status));
        }
    }
}

/* ---- faults of one node or its way ------------------------------------------------ */

static void trap_claim(campaign *c, const slot *at)
{
    static const int troubles[] = {PROXY_CUT_BEFORE_REQUEST,  PROXY_CUT_AFTER_REQUEST,
                                   PROXY_CUT_BEFORE_REPLY,    PROXY_CUT_AFTER_REPLY,
                                   PROXY_HOLE_BEFORE_REQUEST, PROXY_HOLE_BEFORE_REPLY};
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%lld", (long long)(fleet_now_ms() / 1000 + 1) * 1000);
    proxy_trap(at->link, digits, troubles[campaign_random(c, 6)]);
}

static void end_fault(campaign *c, slot *at)
{
    switch (at->fault) {
    case FAULT_KILL:
        spawn(c, at);
        break;
    case FAULT_FREEZE:
        fleet_signal(at->node, SIGCONT);
        break;
    case FAULT_DROP:
        proxy_set(at->link, PROXY_SHUT); /* a stream with a gap is never gone on with */
        fleet_nap_ms(20);
        proxy_set(at->link, PROXY_OPEN);
        break;
    case FAULT_HOLE:
        proxy_set(at->link, PROXY_OPEN);
        break;
    case FAULT_SLOW:
        proxy_delay(at->link, 0);
        break;
    default:
        break;
    }
    at->fault = -1;
}

/* Starts it; returns how long it lasts, 0: it is over already. */
static int64_t start_fault(campaign *c, slot *at, int fault)
{
    switch (fault) {
    case FAULT_KILL:
        fleet_kill(at->node);
        at->node = NULL;
        return 1 + (int64_t)campaign_random(c, 1500);
    case FAULT_FREEZE:
        fleet_stop(at->node);
        return 200 + (int64_t)campaign_random(c, 2 * LEASE_MS);
    case FAULT_LEAVE:
        chaos_replace(c, (size_t)(at - c->slots), false);
        return 0;
    case FAULT_CUT:
        proxy_cut(at->link);
        return 0;
    case FAULT_TRAP:
        trap_claim(c, at);
        return 0;
    case FAULT_HOLE:
    case FAULT_DROP:
        proxy_set(at->link, fault == FAULT_HOLE ? PROXY_HOLE : PROXY_DROP);
        return 200 + (int64_t)campaign_random(c, 2 * LEASE_MS);
    case FAULT_SLOW:
        proxy_delay(at->link, 5 + (int64_t)campaign_random(c, 120));
        return 500 + (int64_t)campaign_random(c, 4000);
    case FAULT_FORGET_SERVER:
        proxy_forget_server(at->link);
        return 0;
    case FAULT_FORGET_CLIENT:
        proxy_forget_client(at->link);
        return 0;
    default:
        return 0;
    }
}

/* ---- faults of the store ----------------------------------------------------------- */

static void end_store_fault(campaign *c)
{
    fleet *f = c->f;
    if (c->store_fault == FAULT_SERVER_KILL) {
        assert_true(server_start(&f->server));
    } else if (c->store_fault == FAULT_SERVER_FREEZE) {
        server_thaw(&f->server);
    } else if (c->store_fault == FAULT_STORE_LOCK && c->lock != NULL) {
        fleet_unlock_store(c->lock);
        c->lock = NULL;
    }
    c->store_fault = -1;
}

static void start_store_fault(campaign *c)
{
    fleet *f = c->f;
    int64_t lasts_ms = 200 + (int64_t)campaign_random(c, 5000);
    if (f->server.kind == SERVER_SQLITE) {
        c->lock = fleet_lock_store(f, 1000);
        if (c->lock == NULL) {
            return;
        }
        c->store_fault = FAULT_STORE_LOCK;
    } else {
        switch (campaign_random(c, 4)) {
        case 0:
            assert_true(server_kill(&f->server));
            c->store_fault = FAULT_SERVER_KILL;
            break;
        case 1:
            server_freeze(&f->server);
            c->store_fault = FAULT_SERVER_FREEZE;
            break;
        default:
            (void)server_end_sessions(&f->server);
            c->faults[FAULT_SESSIONS]++;
            return;
        }
    }
    c->faults[c->store_fault]++;
    c->store_until_ms = fleet_mono_ms() + lasts_ms;
}

/* ---- all --------------------------------------------------------------------------- */

void chaos_step(campaign *c)
{
    int64_t now_ms = fleet_mono_ms();
    chaos_reap(c);
    for (size_t i = 0; i < SLOTS; i++) {
        if (c->slots[i].fault >= 0 && now_ms >= c->slots[i].until_ms) {
            end_fault(c, &c->slots[i]);
        }
    }
    if (c->store_fault >= 0 && now_ms >= c->store_until_ms) {
        end_store_fault(c);
    }
    if (c->store_fault < 0 && !c->f->server.foreign && campaign_random(c, 1500) == 0) {
        start_store_fault(c);
    }
    slot *at = &c->slots[campaign_random(c, SLOTS)];
    if (campaign_random(c, 100) != 0 || at->fault >= 0) {
        return;
    }
    int fault =
        FAULT_KILL + (int)campaign_random(c, at->link == NULL ? FAULT_LEAVE : FAULT_FORGET_CLIENT);
    if (c->leaving_count > 6 && fault == FAULT_LEAVE) {
        return;
    }
    int64_t lasts_ms = start_fault(c, at, fault);
    c->faults[fault]++;
    if (lasts_ms > 0) {
        at->fault = fault;
        at->until_ms = fleet_mono_ms() + lasts_ms;
    }
}

static void count_open_runs(campaign *c)
{
    fleet *f = c->f;
    fleet_read_log(f);
    for (; c->scanned < f->record_count; c->scanned++) {
        const record *entry = &f->records[c->scanned];
        c->open_runs[entry->node] += entry->what == RECORD_START;
        c->open_runs[entry->node] -= entry->what == RECORD_END;
    }
}

static void step_kills(campaign *c)
{
    count_open_runs(c);
    size_t dead = 0;
    for (size_t i = 0; i < SLOTS; i++) {
        slot *at = &c->slots[i];
        if (at->fault >= 0 && fleet_mono_ms() >= at->until_ms) {
            end_fault(c, at);
        }
        dead += at->fault >= 0;
    }
    slot *at = &c->slots[campaign_random(c, SLOTS)];
    if (dead < 2 && at->fault < 0 && campaign_random(c, 8) == 0 &&
        c->open_runs[at->node->index] > 0) {
        (void)start_fault(c, at, FAULT_KILL);
        c->faults[FAULT_KILL]++;
        at->fault = FAULT_KILL;
        at->until_ms = fleet_mono_ms() + (int64_t)campaign_random(c, 200);
    }
}

void chaos_step_only(campaign *c)
{
    fleet *f = c->f;
    slot *at = &c->slots[campaign_random(c, SLOTS)];
    chaos_reap(c);
    switch (c->only) {
    case FAULT_KILL:
        step_kills(c);
        return;
    case FAULT_CUT:
        if (at->link == NULL || campaign_random(c, 10) != 0) {
            return;
        }
        proxy_cut(at->link);
        break;
    case FAULT_SESSIONS:
        if (campaign_random(c, 30) != 0) {
            return;
        }
        (void)server_end_sessions(&f->server);
        break;
    default:
        if (campaign_random(c, 60) != 0) {
            return;
        }
        assert_true(server_kill(&f->server));
        assert_true(server_start(&f->server));
        break;
    }
    c->faults[c->only]++;
}

void chaos_heal(campaign *c)
{
    end_store_fault(c);
    for (size_t i = 0; i < SLOTS; i++) {
        end_fault(c, &c->slots[i]);
    }
}

void chaos_end(campaign *c)
{
    for (size_t i = 0; i < SLOTS; i++) {
        /* Nobody is left who could say how a run has ended. */
        ask_to_leave(c, c->slots[i].node, "drain 30000");
        c->slots[i].node = NULL;
    }
    for (int64_t until_ms = fleet_mono_ms() + FLEET_SOON_MS;
         c->leaving_count > 0 && fleet_mono_ms() < until_ms;) {
        chaos_reap(c);
        fleet_nap_ms(10);
    }
    c->not_left = c->leaving_count;
    for (size_t i = 0; i < c->leaving_count; i++) {
        fleet_kill(c->leaving[i]);
    }
    for (size_t i = 0; i < SLOTS; i++) {
        proxy_stop(c->slots[i].link);
        c->slots[i].link = NULL;
    }
}
