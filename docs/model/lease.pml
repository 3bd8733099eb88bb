/* lease.pml: one job, two nodes, time. Who may believe that his run is still protected, and when
 * another may take the job. The election itself is election.pml.
 *
 * Follows include/jobsched/backend.h ("who is alive"), src/engine/keep.c and run.c (leases), watch.c
 * and judge() of the backends. Time passes in ticks, in which anything else may happen in any order;
 * every clock has an age or a rest, never an absolute time, so time has no end here. Each V_... makes
 * one deliberate mistake. See README.md. */

#ifndef LEASE
#define LEASE 3 /* ticks */
#endif
#ifndef MARGIN
#define MARGIN 0 /* by which a run is told earlier */
#endif
#ifndef DRIFT
#define DRIFT 0 /* ticks that the holder's clock may miss */
#endif
#ifndef GRACE
#define GRACE 2 /* ticks from when a session was first seen gone; only with SESSIONS */
#endif
/* SESSIONS: each node has a session whose end is a proof of death after the grace (postgresql:).
 * PROCESSES: the operating system says who is dead (sqlite:).
 * Neither: only the heartbeat counts (redis:).
 * IMMORTAL: nobody is killed. ONE_LOSES: only node 0 may lose its session.
 * FROZEN_SESSIONS: a session may also end while its owner is frozen, or starved. */

/* A node that does nothing while time passes is frozen, or starved; nothing else says so. */
#define DEAD  0
#define ALIVE 1

#define NOTHING 0
#define CLAIM   1
#define FINISH  2

#define IDLE     0
#define SENT     1
#define ANSWERED 2

#define NO_ANSWER 0
#define GRANTED   1
#define REFUSED   2
#define KEPT      3
#define GONE      4

#define NOT_RUNNING 0
#define RUNNING     1
#define ENDED       2 /* its finish is not answered yet */

typedef Node {
    byte life;
    /* the run, as the node sees it */
    byte work;
    byte left;    /* of the lease, on its own clock; 0: told */
    bool is_mine; /* the row in the store is this run's (its token) */
    /* what it knows of the other one's heartbeat */
    bool moved; /* it has moved since the node's last look */
    byte stood; /* how long it has stood, on the node's own clock */
    /* lane KEEP */
    byte keep;
    byte keep_age;
    byte keep_answer;
    bool keep_for_run; /* the request is about the run that goes on */
    bool keep_moved;   /* the other's heartbeat has moved since this answer was made */
    /* lane CLAIM */
    byte ask;
    byte ask_kind;
    byte ask_age;
    byte ask_answer;
    bool ask_again;    /* an earlier try has an unknown outcome */
    bool ask_evidence; /* it says: this heartbeat of the other has stood for the whole lease */
#if defined(SESSIONS)
    bool session;
    byte gone; /* 0, or 1 + ticks since a taker first saw the session gone */
    byte ended; /* ticks since it has ended; until it is entered again */
    bool doubt; /* it came back too late, and has not heard of its runs since */
    bool ask_lost; /* that, or lost, was after the request which is under way was sent */
    bool lost; /* the node knows that its session is gone, and has told its runs */
#endif
#if defined(V_WALL_CLOCK)
    byte beat_age; /* by the server's clock */
#endif
}
Node n[2];

/* The store: node + 1 of the RUNNING row, and whether the claim that made it is unanswered. */
byte holder;
bool unanswered;

byte drift = DRIFT;
bool calm;   /* no more trouble from now on */
byte waited; /* ticks for which a living node has been kept from the job by a dead one */
#if defined(V_WALL_CLOCK)
bool stepped;
#endif

#ifdef ONE_LOSES
#define MAY_LOSE(i) (i == 0)
#else
#define MAY_LOSE(i) true
#endif
#ifdef IMMORTAL
#define MAY_DIE false
#else
#define MAY_DIE true
#endif

#define OTHER(i) (1 - (i))
/* What makes no difference is not remembered: fewer states. Whoever becomes the holder beats. */
#if defined(V_JUDGE_OUTSIDE) || defined(V_GRANT_IS_NO_BEAT)
#define IS_WATCHED(i) true
#else
#define IS_WATCHED(i) (holder == (i) + 1)
#endif
/* What a run is told does not rest on what the node has noticed: each question looks at the session
 * (vouch() in backend.h). */
#if defined(SESSIONS) && !defined(V_NO_VOUCH)
#define VOUCHED(i) (!n[i].doubt && (n[i].session || n[i].ended < GRACE))
#else
#define VOUCHED(i) true
#endif
#define BELIEVES(i) (n[i].life != DEAD && n[i].work == RUNNING && n[i].left > 0 && VOUCHED(i))

inline check_overlap() { assert(!(BELIEVES(0) && BELIEVES(1))) }

inline beat(i)
{
    n[OTHER(i)].moved = true;
    if
    :: n[OTHER(i)].keep == ANSWERED -> n[OTHER(i)].keep_moved = true
    :: else
    fi;
#ifndef V_JUDGE_OUTSIDE
    n[OTHER(i)].stood = 0; /* counts only while it stands */
    n[OTHER(i)].ask_evidence = false; /* the store compares: it is not the same heartbeat any more */
#endif
#if defined(V_WALL_CLOCK)
    n[i].beat_age = 0
#else
    skip
#endif
}

/* A look at the other's heartbeat arrives; moved_since: it has moved since the look was made. */
inline look(i, moved_since)
{
    if
    :: n[i].moved ->
#ifdef V_STOOD_FROM_SEND
        n[i].stood = n[i].keep_age
#else
        n[i].stood = 0
#endif
    :: else
    fi;
    n[i].moved = (moved_since || !IS_WATCHED(OTHER(i)))
}

/* judge(): is the other one dead? In the same atomic step in which that is acted upon. */
#ifdef V_WALL_CLOCK
#define STANDS_STILL(i) (n[OTHER(i)].beat_age >= LEASE)
#else
#define STANDS_STILL(i) (n[i].ask_evidence)
#endif

#if defined(SESSIONS) && !defined(V_CLAIM_NOT_ENTERED)
#define MAY_CLAIM(i) (n[i].session)
#else
#define MAY_CLAIM(i) true
#endif
#if defined(SESSIONS)
#ifdef V_NO_GRACE
#define PROVEN(i) (!n[OTHER(i)].session)
#else
#define PROVEN(i) (!n[OTHER(i)].session && n[OTHER(i)].gone > GRACE)
#endif
#else
#ifdef PROCESSES
#define PROVEN(i) (n[OTHER(i)].life == DEAD)
#else
#define PROVEN(i) false
#endif
#endif

inline take(i)
{
    waited = 0;
    holder = i + 1;
    unanswered = true;
    n[OTHER(i)].is_mine = false;
    n[i].ask_answer = GRANTED;
#ifndef V_GRANT_IS_NO_BEAT
    beat(i)
#endif
}

inline claim(i)
{
    if
    :: !MAY_CLAIM(i) -> n[i].ask_answer = REFUSED /* it has to enter first */
    :: MAY_CLAIM(i) && holder == i + 1 && unanswered && n[i].ask_again -> /* given again */
        n[i].ask_answer = GRANTED;
        waited = 0;
#ifndef V_REPETITION_IS_NO_BEAT
        beat(i)
#endif
    :: MAY_CLAIM(i) && holder == 0 -> take(i)
    :: MAY_CLAIM(i) && holder == OTHER(i) + 1 && (STANDS_STILL(i) || PROVEN(i)) ->
        printf("node %d takes the job from node %d\n", i, OTHER(i));
        take(i)
    :: else ->
        n[i].ask_answer = REFUSED;
#if defined(SESSIONS)
        if
        :: holder == OTHER(i) + 1 && !n[OTHER(i)].session && n[OTHER(i)].gone == 0 ->
            n[OTHER(i)].gone = 1;
            printf("node %d finds the session of node %d gone\n", i, OTHER(i))
        :: else
        fi
#endif
    fi
}

inline unwatch(i)
{
#if !defined(V_JUDGE_OUTSIDE) && !defined(V_GRANT_IS_NO_BEAT)
    n[i].moved = true;
    n[i].stood = 0;
    n[i].ask_evidence = false;
    if
    :: n[i].keep == ANSWERED -> n[i].keep_moved = true
    :: else
    fi
#else
    skip
#endif
}

inline finish(i)
{
    n[i].ask_answer = KEPT;
    if
#ifdef V_FINISH_BY_NAME
    :: holder != 0 ->
#else
    :: holder == i + 1 && n[i].is_mine ->
#endif
        holder = 0;
        unanswered = false;
        unwatch(0);
        unwatch(1)
    :: else
    fi;
    n[i].is_mine = false
}

inline forget_ask(i)
{
    n[i].ask = IDLE;
    n[i].ask_kind = NOTHING;
    n[i].ask_age = 0;
    n[i].ask_answer = NO_ANSWER;
    n[i].ask_again = false;
#ifdef SESSIONS
    n[i].ask_lost = false;
#endif
    n[i].ask_evidence = false
}

inline forget_keep(i)
{
    n[i].keep = IDLE;
    n[i].keep_age = 0;
    n[i].keep_answer = NO_ANSWER;
    n[i].keep_for_run = false;
    n[i].keep_moved = false
}

/* A lease that has ended stays ended. */
#ifdef V_RENEW_BY_NAME
#define MAY_RENEW(i) true
#else
#define MAY_RENEW(i) (n[i].left > 0)
#endif

/* A lease is what is left of it since the request was sent. */
#ifdef V_LEASE_FROM_ANSWER
#define LEFT_AFTER(age) (LEASE - MARGIN)
#else
#define LEFT_AFTER(age) ((age) < LEASE - MARGIN -> LEASE - MARGIN - (age) : 0)
#endif

/* What a living node must do before time may pass, once there is no more trouble: answer within the
 * tick, beat once a tick, and ask for the job when it has no run. */
#define HAS_TO_BEAT(i) (n[i].work == RUNNING || holder != 0) /* nobody looks at other beats */
bool beaten[2], asked[2]; /* in this tick */

#define HAS_TO_ACT(i) \
    (n[i].life == ALIVE && (n[i].keep != IDLE || n[i].ask != IDLE || (!beaten[i] && HAS_TO_BEAT(i)) || \
        (!asked[i] && n[i].work == NOT_RUNNING) || n[i].work == ENDED || \
        (n[i].work == RUNNING && n[i].left == 0)))

#if defined(SESSIONS)
/* A living owner comes back before its grace is over, or tells its runs; unless it is frozen. */
#ifdef FROZEN_SESSIONS
#define SESSIONS_LET_TIME_PASS(i) true
#else
#define SESSIONS_LET_TIME_PASS(i) \
    (n[i].life == DEAD || n[i].session || n[i].lost || n[i].gone < GRACE)
#endif
#define IS_ENTERED(i) (n[i].session)
#else
#define SESSIONS_LET_TIME_PASS(i) true
#define IS_ENTERED(i) true
#endif

/* Whether a grant that is just heard of may be somebody else's by now. */
#if defined(SESSIONS) && !defined(V_GRANT_OVER_LOSS)
#define IS_DOUBTFUL(i) (n[i].lost || n[i].ask_lost || !VOUCHED(i))
#else
#define IS_DOUBTFUL(i) false
#endif

#ifdef V_JUDGE_OUTSIDE
#define STANDS(i) true
#else
#define STANDS(i) (!n[i].moved)
#endif
#ifdef V_STOOD_FROM_SEND
#define KEEP_AGE_COUNTS(i) true
#else
#define KEEP_AGE_COUNTS(i) (n[i].keep_for_run)
#endif

inline forget_if_told(i)
{
#ifndef V_RENEW_BY_NAME
    if
    :: n[i].left == 0 ->
        n[i].keep_for_run = false;
        n[i].keep_age = 0;
        n[i].keep_answer = NO_ANSWER
    :: else
    fi
#else
    skip
#endif
}

inline age_node(i)
{
    if
    :: n[i].left > 0 && !(i == 0 && missed) -> n[i].left--; forget_if_told(i)
    :: else
    fi;
    if
    :: n[i].stood < LEASE && IS_WATCHED(OTHER(i)) && STANDS(i) -> n[i].stood++
    :: else
    fi;
    if
    :: n[i].keep != IDLE && n[i].keep_age < LEASE && KEEP_AGE_COUNTS(i) -> n[i].keep_age++
    :: else
    fi;
    if
    :: n[i].ask_kind == CLAIM && n[i].ask != IDLE && n[i].ask_age < LEASE -> n[i].ask_age++
    :: else
    fi;
#if defined(SESSIONS)
    if
    :: n[i].gone > 0 && n[i].gone <= GRACE -> n[i].gone++
    :: else
    fi;
    if
    :: n[i].life == ALIVE && !n[i].session && n[i].ended < GRACE -> n[i].ended++
    :: else
    fi;
#endif
#if defined(V_WALL_CLOCK)
    if
    :: n[i].beat_age < LEASE -> n[i].beat_age++
    :: else
    fi;
#endif
    beaten[i] = false;
    asked[i] = false
}

#ifdef SESSIONS
#define TAKEOVER (GRACE + 2)
#else
#ifdef PROCESSES
#define TAKEOVER 1
#else
#define TAKEOVER (LEASE + 2)
#endif
#endif

proctype the_time()
{
    bool missed;
    do
    :: atomic {
        SESSIONS_LET_TIME_PASS(0) && SESSIONS_LET_TIME_PASS(1) &&
        !(calm && (HAS_TO_ACT(0) || HAS_TO_ACT(1))) ->
        if
        :: skip
        :: drift > 0 && n[0].left > 0 -> drift--; missed = true; printf("node 0's clock misses a tick\n")
        fi;
        age_node(0);
        age_node(1);
        missed = false;
        printf("-- tick; lease left: %d and %d\n", n[0].left, n[1].left);
        if
        :: calm && holder != 0 && n[holder - 1].life == DEAD && n[2 - holder].life == ALIVE ->
            waited++;
            assert(waited <= TAKEOVER) /* progress: a dead owner delays its job no longer */
        :: else -> waited = 0
        fi
       }
#if defined(V_WALL_CLOCK)
    :: atomic {
        !stepped -> stepped = true;
        n[0].beat_age = LEASE;
        n[1].beat_age = LEASE;
        printf("the server's clock is set forward\n")
       }
#endif
    od
}

proctype a_node(byte i)
{
    do
    /* ---- lane KEEP: the heartbeat, and what it tells of the run ---- */
    :: atomic {
        n[i].life == ALIVE && n[i].keep == IDLE && !(calm && beaten[i]) && IS_ENTERED(i) &&
        HAS_TO_BEAT(i) ->
        n[i].keep = SENT;
        n[i].keep_for_run = (n[i].work == RUNNING && MAY_RENEW(i));
        beaten[i] = true;
        printf("node %d sends a heartbeat\n", i)
       }
    :: atomic {
        n[i].keep == SENT ->
        n[i].keep = ANSWERED;
        n[i].keep_moved = !IS_WATCHED(OTHER(i));
        if
        :: !n[i].keep_for_run -> skip
#ifdef V_RENEW_BY_NAME
        :: n[i].keep_for_run && holder != 0 -> n[i].keep_answer = KEPT
#else
        :: n[i].keep_for_run && holder == i + 1 && n[i].is_mine -> n[i].keep_answer = KEPT
#endif
        :: else -> n[i].keep_answer = GONE
        fi;
        beat(i);
        printf("the store takes the heartbeat of node %d\n", i)
       }
    :: atomic {
        n[i].life == ALIVE && n[i].keep == ANSWERED ->
        if
        :: n[i].keep_for_run && n[i].work == RUNNING ->
            if
            :: n[i].keep_answer == GONE -> n[i].left = 0
            :: n[i].keep_answer == KEPT && MAY_RENEW(i) -> n[i].left = LEFT_AFTER(n[i].keep_age)
            :: else
            fi
        :: else
        fi;
        look(i, n[i].keep_moved);
#ifdef SESSIONS
        n[i].doubt = false;
#endif
        forget_keep(i);
        printf("node %d hears of its heartbeat; lease left: %d\n", i, n[i].left);
        check_overlap()
       }
    :: atomic {
        n[i].life == ALIVE && n[i].keep != IDLE && !calm ->
        printf("node %d hears nothing of its heartbeat\n", i);
        forget_keep(i)
       }
    /* ---- lane CLAIM ---- */
    :: atomic {
        n[i].life == ALIVE && n[i].ask == IDLE && !(calm && asked[i] && n[i].work == NOT_RUNNING) ->
        asked[i] = true;
        if
        :: n[i].work == RUNNING -> /* the callback ends, or has been told and stops */
            n[i].work = ENDED;
            n[i].left = 0;
            forget_if_told(i)
        :: else
        fi;
        n[i].ask = SENT;
        n[i].ask_kind = (n[i].work == ENDED -> FINISH : CLAIM);
        n[i].ask_evidence = (n[i].ask_kind == CLAIM && n[i].stood >= LEASE);
        printf("node %d sends a %d (1 claim, 2 finish); other seen standing still: %d\n", i,
            n[i].ask_kind, n[i].ask_evidence)
       }
    :: atomic {
        n[i].ask == SENT ->
        n[i].ask = ANSWERED;
        if
        :: n[i].ask_kind == CLAIM -> claim(i)
        :: else -> finish(i)
        fi;
        printf("the store answers node %d: %d; holder is node %d\n", i, n[i].ask_answer, holder - 1)
       }
    :: atomic {
        n[i].life == ALIVE && n[i].ask == ANSWERED ->
        if
        :: n[i].ask_kind == FINISH -> n[i].work = NOT_RUNNING
        :: n[i].ask_kind == CLAIM && n[i].ask_answer == GRANTED && IS_DOUBTFUL(i) ->
            skip /* it may be somebody else's by now: the same is asked again */
        :: n[i].ask_kind == CLAIM && n[i].ask_answer == GRANTED && !IS_DOUBTFUL(i) ->
            n[i].work = RUNNING;
            n[i].left = LEFT_AFTER(n[i].ask_age);
            n[i].keep_for_run = false;
            if
            :: holder == i + 1 && unanswered -> n[i].is_mine = true; unanswered = false
            :: else -> n[i].is_mine = false /* taken meanwhile */
            fi;
            printf("node %d starts; lease left: %d\n", i, n[i].left)
        :: else
        fi;
        if
        :: n[i].ask_kind == CLAIM && n[i].ask_answer == GRANTED && n[i].work == NOT_RUNNING ->
            forget_ask(i);
            n[i].ask_again = true;
            printf("node %d doubts what it was granted\n", i)
        :: else -> forget_ask(i)
        fi;
        check_overlap()
       }
    :: atomic {
        n[i].life == ALIVE && n[i].ask != IDLE && !calm ->
        printf("node %d hears nothing of its request\n", i);
        /* Asked again exactly as it was; the evidence is that of the moment. */
        n[i].ask = IDLE;
        n[i].ask_age = 0;
        n[i].ask_answer = NO_ANSWER;
        n[i].ask_evidence = false;
#ifdef SESSIONS
        n[i].ask_lost = false;
#endif
        n[i].ask_again = (n[i].ask_kind == CLAIM)
       }
    /* ---- trouble ---- */
    :: atomic {
        i == 0 && MAY_DIE && n[i].life == ALIVE && !calm -> /* by symmetry the other need not die */
        n[i].life = DEAD;
        n[i].work = NOT_RUNNING;
        n[i].left = 0;
        n[i].is_mine = false;
        forget_keep(i);
        if
#ifndef PROCESSES
        :: n[i].ask == SENT -> skip /* it may arrive after its death */
#endif
        :: else -> forget_ask(i)
        fi;
#if defined(SESSIONS)
        n[i].session = false;
#endif
        calm = true;
        printf("node %d is killed, and no trouble from now on\n", i)
       }
#if defined(SESSIONS)
    :: atomic {
        n[i].life == ALIVE && n[i].session && !calm && MAY_LOSE(i) ->
        n[i].session = false;
        n[i].ended = 0;
        forget_keep(i);
        printf("the session of node %d is ended by force\n", i)
       }
    :: atomic { /* jsi_keep_lost_locked() */
        n[i].life == ALIVE && !n[i].session && !n[i].lost ->
        n[i].lost = true;
        n[i].ask_lost = (n[i].ask != IDLE && n[i].ask_kind == CLAIM);
        n[i].left = 0;
        forget_if_told(i);
        printf("node %d cannot come back and tells its runs\n", i)
       }
    :: atomic {
        n[i].life == ALIVE && !n[i].session ->
        n[i].session = true;
        n[i].lost = false;
        if
        :: n[i].ended >= GRACE ->
            n[i].doubt = true;
            n[i].ask_lost = (n[i].ask_lost || (n[i].ask != IDLE && n[i].ask_kind == CLAIM))
        :: else
        fi;
        n[i].ended = 0;
#ifndef V_STAMP_STAYS
        n[i].gone = 0;
#endif
        beat(i);
        printf("node %d enters again\n", i)
       }
#endif
    od
}

init {
    atomic {
        n[0].life = ALIVE;
        n[1].life = ALIVE;
#if defined(SESSIONS)
        n[0].session = true;
        n[1].session = true;
#endif
        /* Neither has seen the other yet: nothing stands still. */
        n[0].moved = true;
        n[1].moved = true;
        run the_time();
        run a_node(0);
        run a_node(1)
    }
}
