/* failover.pml: the store is replaced by a copy that has forgotten the latest of what was answered
 * (a promoted standby, a restored backup). One job, two nodes, occurrences 1 to LAST, each due at
 * the tick of its number.
 *
 * Follows hello() and held.sql in src/backends/postgres/sql, enter.lua and assert.lua of redis:,
 * the renewal in src/engine/keep.c. A round trip is one step here; lost answers are in the other
 * two models. Each V_... makes one deliberate mistake. CLOCK_BEHIND: the copy's server has such a
 * clock. PUNCTUAL: whoever lives is back before the quarantine is over. IMMORTAL: nobody is killed.
 * See README.md. */

#ifndef LAST
#define LAST 3
#endif
#ifndef LEASE
#define LEASE 2 /* ticks */
#endif

#ifdef V_LONGER_LEASE
/* The job's lease is longer than any that the promoted copy has heard of, and nobody says so. */
#define QUARANTINE (LEASE - 1)
#else
#define QUARANTINE LEASE
#endif
#ifdef CLOCK_BEHIND
#define BEHIND 1 /* ticks that the new server's clock is behind the old one's */
#else
#define BEHIND 0
#endif
#define EPOCH 8 /* tokens in one epoch */

#define IDLE    0
#define RUNNING 1
#define ENDED   2

typedef Node {
    bool up;
    bool connected;
    byte mark; /* as the node knows it */
    byte work;
    byte tok;
    byte left;   /* of the lease */
    byte silent; /* ticks since its heartbeat moved, as the other one has seen it */
#ifdef CLOCK_BEHIND
    byte seen; /* the server's clock, as last told */
#endif
    bool acted
}
Node n[2];

/* The store, and the copy that follows it. */
typedef Store {
    byte mark;
    byte token;
    byte holder;
    byte holder_tok
}
Store s, copy;
byte epoch;
byte now = 0;     /* the server's clock; stops at LAST */
byte quarantine;  /* ticks left */
bool is_new;      /* promoted, and nobody has said hello yet */
byte failovers = 1;

bool calm; /* no more trouble from now on */
byte calm_for;
byte largest;
byte starts[LAST + 1];

#define OTHER(i) (1 - (i))
#define BELIEVES(i) (n[i].up && n[i].work == RUNNING && n[i].left > 0)
#define MAX(a, b) ((a) > (b) -> (a) : (b))

#ifdef CLOCK_BEHIND
#define SEE(i) n[i].seen = now
#else
#define SEE(i) skip
#endif
#if defined(CLOCK_BEHIND) && !defined(V_CLOCK_BEHIND)
#define FLOOR(i) MAX(now, n[i].seen)
#else
#define FLOOR(i) now
#endif

/* Asked once on each new connection: after a failover, by both. */
inline hello(i)
{
    if
    :: is_new ->
        is_new = false;
#ifndef V_NO_EPOCH
        epoch++;
        s.token = MAX(s.token, epoch * EPOCH);
#endif
#ifndef V_NO_FLOOR
        s.mark = MAX(s.mark, FLOOR(i));
#endif
#ifndef V_NO_QUARANTINE
        quarantine = QUARANTINE;
#endif
        printf("node %d finds another server: mark %d, token %d\n", i, s.mark, s.token)
#if defined(CLOCK_BEHIND) && !defined(V_CLOCK_BEHIND)
    :: !is_new && quarantine > 0 -> s.mark = MAX(s.mark, FLOOR(i)) /* who comes later brings more */
#endif
    :: else
    fi;
    SEE(i);
    /* A run that was forgotten is this node's again, while nobody can have been granted another. */
    if
    :: quarantine > 0 && n[i].work != IDLE && s.holder == 0 && n[i].tok < epoch * EPOCH ->
        s.holder = i + 1;
        s.holder_tok = n[i].tok;
        printf("node %d holds token %d again\n", i, s.holder_tok)
    :: else
    fi;
#ifndef V_FORGOTTEN_END
    /* What the store holds in this node's name and the node knows nothing of has ended. */
    if
    :: s.holder == i + 1 && !(n[i].work != IDLE && n[i].tok == s.holder_tok) -> s.holder = 0
    :: else
    fi;
#endif
    n[i].connected = true;
    n[i].silent = 0
}

inline claim(i)
{
    if
    :: quarantine > 0 -> printf("node %d is told to wait for %d ticks\n", i, quarantine)
    :: quarantine == 0 && n[i].mark != s.mark ->
        n[i].mark = s.mark;
        printf("node %d learns mark %d\n", i, s.mark)
    :: quarantine == 0 && n[i].mark == s.mark && s.mark < now ->
        if
        :: s.holder == i + 1 || (s.holder == OTHER(i) + 1 && n[OTHER(i)].silent < LEASE) ->
            printf("node %d is told that node %d holds it\n", i, s.holder - 1)
        :: else ->
            s.token++;
            s.mark++;
            s.holder = i + 1;
            s.holder_tok = s.token;
            n[i].silent = 0;
            printf("node %d is granted occurrence %d under token %d\n", i, s.mark, s.token);
            assert(s.token > largest); /* tokens grow */
            largest = s.token;
            starts[s.mark]++;
            assert(starts[s.mark] == 1); /* at most one grant per occurrence */
            n[i].mark = s.mark;
            n[i].work = RUNNING;
            n[i].tok = s.token;
            n[i].left = LEASE;
            assert(!(BELIEVES(0) && BELIEVES(1))) /* no overlap while leases are honoured */
        fi
    :: else
    fi
}

inline end_run(i)
{
    if
    :: s.holder == i + 1 && s.holder_tok == n[i].tok -> s.holder = 0
    :: else
    fi;
    n[i].work = IDLE;
    n[i].tok = 0;
    printf("node %d has told the store of its end; holder is node %d\n", i, s.holder - 1)
}

#define HAS_TO_ACT(i) \
    (n[i].up && (!n[i].connected || n[i].work != IDLE || !n[i].acted))

proctype a_node(byte i)
{
end:
    do
    :: atomic { n[i].up && !n[i].connected -> hello(i) }
    :: atomic {
        n[i].up && n[i].connected && n[i].work == IDLE && !(calm && n[i].acted) ->
        n[i].acted = true;
        n[i].silent = 0;
        SEE(i);
        claim(i)
       }
    /* keep.c */
    :: atomic {
        n[i].up && n[i].connected && n[i].work == RUNNING && n[i].left > 0 ->
        n[i].silent = 0;
        SEE(i);
        if
        :: s.holder == i + 1 && s.holder_tok == n[i].tok ->
            n[i].left = LEASE;
            printf("node %d has renewed\n", i)
        :: else ->
            n[i].left = 0;
            printf("node %d is told that its run is gone\n", i)
        fi
       }
    :: atomic {
        n[i].work == RUNNING && n[i].up -> /* the callback ends, or has been told */
        n[i].work = ENDED;
        n[i].left = 0
       }
    :: atomic { n[i].up && n[i].connected && n[i].work == ENDED -> end_run(i) }
    :: atomic {
#ifdef IMMORTAL
        false ->
#else
        i == 0 && n[i].up && !calm ->
#endif
        n[i].up = false;
        n[i].work = IDLE;
        n[i].tok = 0;
        n[i].left = 0;
        printf("node %d is killed\n", i)
       }
    od
}

proctype the_store()
{
end:
    do
    :: atomic { /* the copy follows when it can */
        !calm && !is_new && failovers > 0 ->
        copy.mark = s.mark;
        copy.token = s.token;
        copy.holder = s.holder;
        copy.holder_tok = s.holder_tok;
        printf("the copy has mark %d, token %d, holder %d\n", s.mark, s.token, s.holder - 1)
       }
    :: atomic {
        failovers > 0 && !calm ->
        failovers--;
        s.mark = copy.mark;
        s.token = copy.token;
        s.holder = copy.holder;
        s.holder_tok = copy.holder_tok;
        is_new = true;
        n[0].connected = false;
        n[1].connected = false;
        if
        :: now > 0 && BEHIND > 0 -> now--
        :: else
        fi;
        printf("the copy is promoted: mark %d, token %d, holder %d\n", s.mark, s.token,
            s.holder - 1)
       }
    :: atomic {
        !calm && failovers == 0 ->
        calm = true;
        printf("no more trouble from now on\n")
       }
    od
}

inline age(i)
{
    if
    :: n[i].left > 0 -> n[i].left--
    :: else
    fi;
    if
    :: n[i].silent < LEASE -> n[i].silent++
    :: else
    fi;
    n[i].acted = false
}

/* After the last trouble: a quarantine, a lease of one that has died, and a tick each. */
#define PATIENCE (QUARANTINE + LEASE + LAST + 3)

proctype the_time()
{
end:
    do
    :: atomic {
        (now < LAST || quarantine > 0 || n[0].left > 0 || n[1].left > 0 || calm) &&
#ifdef PUNCTUAL
        !(quarantine == 1 && ((n[0].up && !n[0].connected) || (n[1].up && !n[1].connected))) &&
#endif
        calm_for <= PATIENCE && !(calm && (HAS_TO_ACT(0) || HAS_TO_ACT(1))) ->
        if
        :: now < LAST -> now++
        :: else
        fi;
        if
        :: quarantine > 0 -> quarantine--
        :: else
        fi;
        age(0);
        age(1);
        if
        :: calm -> calm_for++
        :: else
        fi;
        printf("-- tick; now %d, lease left: %d and %d\n", now, n[0].left, n[1].left);
        /* progress: in the end every occurrence is accounted for */
        assert(calm_for <= PATIENCE || s.mark == LAST)
       }
    od
}

init {
    atomic {
        n[0].up = true;
        n[1].up = true;
        n[0].connected = true;
        n[1].connected = true;
        run a_node(0);
        run a_node(1);
        run the_store();
        run the_time()
    }
}
