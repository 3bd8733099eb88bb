/* election.pml: who is granted an occurrence, when nothing is said of time: the mark, tokens,
 * repetition after an unknown outcome, crash and restart, pause. Whether an owner is dead is known
 * for certain here; how that is found out is lease.pml.
 *
 * Follows include/jobsched/backend.h (claim, finish, announce, control), src/engine/fire.c,
 * answer.c, decide.c, elect.c. Each V_... makes one deliberate mistake. See README.md. */

#ifndef NODES
#define NODES 2
#endif
#ifndef LAST
#define LAST 3 /* occurrences 1 to LAST */
#endif
#ifndef FAULTS
#define FAULTS 2 /* lost requests and answers */
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef LATE
#define LATE 0 /* requests that arrive after their connection was given up */
#endif
#ifndef OPERATOR
#define OPERATOR 0 /* 1: somebody pauses and resumes */
#endif
/* HELD_WAIT: overlap policy "queue"; else "skip". NO_CLOSE: nobody closes missed occurrences.
 * SAFETY_ONLY: without the properties that say that all comes to an end. */

/* What a node has under way on lane CLAIM. */
#define NOTHING 0
#define CLAIM   1
#define SKIP    2 /* closes after+1 to occ without running them */
#define FINISH  3

#define TO_SEND  0 /* unknown outcome: to be sent again as it was */
#define SENT     1
#define CHECKED  2 /* only with V_PAUSE_CHECK_FIRST: half of the store's step is done */
#define ANSWERED 3

#define GRANTED 1
#define HELD    2
#define GONE_ON 3 /* done, moved, paused: the answer's mark tells where to go on */
#define KEPT    4

#define IDLE    0
#define RUNNING 1
#define ENDED   2 /* its finish is not answered yet */

typedef Node {
    bool up;
    bool gone; /* killed, and not started again */
    bool waits; /* answered HELD; asks again once that can have changed */
    byte mark;  /* as the node knows it */
    byte kind;
    byte stage;
    byte occ;
    byte after;
    bool unresolved; /* an earlier try of it had an unknown outcome */
    byte tok;
    byte answer;
    byte answer_tok;
    byte answer_mark;
    byte work;
    byte work_occ;
    byte work_tok;
    byte late; /* a copy of an older request, still on its way */
    byte late_occ;
    byte late_after;
    byte late_tok
}
Node node[NODES];

/* The store: the fence, and the one row that can be RUNNING. */
byte mark, token, due;
byte holder; /* 0: none, else node + 1 */
bool holder_dead;
byte holder_occ, holder_tok;
bool paused;
#ifdef V_PAUSE_ONE_NODE
bool paused_here[NODES];
#endif
#ifdef V_PAUSE_CHECK_FIRST
bool saw_paused[NODES];
#endif

byte faults = FAULTS, crashes = CRASHES, lates = LATE;

/* What the checker knows by itself. */
byte grants[LAST + 1], starts[LAST + 1], accounts[LAST + 1];
byte largest;
bool pause_holds;
bool late_resume;
byte acts; /* of the operator */

#define IS_HELD  (holder != 0 && !holder_dead)
#define IS_MINE(i) (holder == (i) + 1 && !holder_dead)

inline account(first, last)
{
    o = first;
    do
    :: o <= last -> accounts[o]++;
        assert(accounts[o] == 1); /* every occurrence ends in exactly one outcome */
        o++
    :: else -> break
    od;
    o = 0
}

inline grant(i, an_occ)
{
#ifdef V_TOKEN_FROM_ROW
    holder_tok = holder_tok + 1; /* the row's token, gone with the row */
#else
    token++;
    holder_tok = token;
#endif
    assert(holder_tok > largest); /* tokens grow */
    largest = holder_tok;
    grants[an_occ]++;
    assert(grants[an_occ] == 1); /* at most one grant per occurrence */
    assert(!pause_holds);        /* a pause that has returned holds */
    holder = i + 1;
    holder_dead = !node[i].up; /* a request outlived its node */
    holder_occ = an_occ;
    mark = an_occ;
    answer = GRANTED;
    answer_tok = holder_tok
}

#ifdef V_PAUSE_CHECK_FIRST
#define PAUSED(i) saw_paused[i]
#else
#ifdef V_PAUSE_ONE_NODE
#define PAUSED(i) paused_here[i]
#else
#define PAUSED(i) paused
#endif
#endif

#ifdef V_REPETITION_FOR_ANYBODY
#define IS_REPETITION(i, an_occ) (IS_HELD && holder_occ == an_occ)
#else
#ifdef V_NO_REPETITION
#define IS_REPETITION(i, an_occ) false
#else
#define IS_REPETITION(i, an_occ) (IS_MINE(i) && holder_occ == an_occ)
#endif
#endif

#ifdef V_NO_MARK
#define IS_DONE(an_occ) false
#define HAS_MOVED(an_after) false
#else
#define IS_DONE(an_occ) (an_occ <= mark)
#ifdef V_NO_AFTER
#define HAS_MOVED(an_after) false
#else
#define HAS_MOVED(an_after) (mark != an_after)
#endif
#endif

/* The claim rule of backend.h, one atomic step. Leaves the answer in answer, answer_tok. */
inline claim(i, a_kind, an_occ, an_after)
{
    answer_tok = 0;
    if
    :: a_kind == CLAIM && IS_REPETITION(i, an_occ) ->
        answer = GRANTED;
        answer_tok = holder_tok
    :: else ->
        if
        :: IS_DONE(an_occ) || HAS_MOVED(an_after) ->
            answer = GONE_ON
        :: else ->
            if
            :: PAUSED(i) ->
                account(an_after + 1, an_occ);
                mark = an_occ;
                answer = GONE_ON
            :: else ->
                if
                :: a_kind == SKIP ->
                    account(an_after + 1, an_occ);
                    mark = an_occ;
                    answer = GONE_ON
                :: else ->
                    if
                    :: IS_HELD ->
                        answer = HELD;
#ifndef HELD_WAIT
                        account(an_occ, an_occ);
                        mark = an_occ
#endif
                    :: else -> /* a dead holder is made INTERRUPTED on the way */
                        grant(i, an_occ);
                        account(an_occ, an_occ)
                    fi
                fi
            fi
        fi
    fi
}

inline finish(i, a_tok)
{
    answer_tok = 0;
    answer = KEPT;
    if
#ifdef V_FINISH_BY_NAME
    :: IS_HELD ->
#else
    :: IS_MINE(i) && holder_tok == a_tok ->
#endif
        holder = 0;
        holder_occ = 0;
#ifdef V_TOKEN_FROM_ROW
        holder_tok = 0
#endif
    :: else
    fi
}

inline forget_request(i)
{
    node[i].kind = NOTHING;
    node[i].unresolved = false;
    node[i].stage = TO_SEND;
    node[i].occ = 0;
    node[i].after = 0;
    node[i].tok = 0;
    node[i].answer = 0;
    node[i].answer_tok = 0;
    node[i].answer_mark = 0
}

inline forget_late(i)
{
    node[i].late = NOTHING;
    node[i].late_occ = 0;
    node[i].late_after = 0;
    node[i].late_tok = 0
}

inline start(i, an_occ, a_tok)
{
    starts[an_occ]++;
    assert(starts[an_occ] == 1); /* and no callback is called twice for it */
    assert(node[i].work == IDLE);
    other = 0;
    do
    :: other < NODES ->
        /* no overlap */
        assert(other == i || !node[other].up || node[other].work != RUNNING);
        other++
    :: else -> break
    od;
    other = 0;
    node[i].work = RUNNING;
    node[i].work_occ = an_occ;
    node[i].work_tok = a_tok;
    printf("node %d starts occurrence %d under token %d\n", i, an_occ, a_tok)
}

/* answer.c */
inline apply_answer(i)
{
    if
    :: node[i].kind == FINISH ->
#ifdef V_RELEASE_FIRST
        skip
#else
        node[i].work = IDLE;
        node[i].work_occ = 0;
        node[i].work_tok = 0
#endif
    :: else ->
        if
        :: node[i].answer == GRANTED ->
            start(i, node[i].occ, node[i].answer_tok);
            node[i].mark = node[i].occ
        :: node[i].answer == HELD ->
#ifdef HELD_WAIT
            node[i].waits = true
#else
            node[i].mark = node[i].answer_mark
#endif
        :: else ->
            node[i].mark = node[i].answer_mark
        fi
    fi;
    forget_request(i)
}

/* Nothing is known of it. */
inline unknown(i)
{
    node[i].unresolved = true;
#ifdef V_ERROR_IS_LOST
    if
    :: node[i].kind != FINISH -> node[i].mark = node[i].occ; forget_request(i)
    :: else -> node[i].stage = TO_SEND
    fi
#else
#ifdef V_ERROR_IS_WON
    if
    :: node[i].kind == CLAIM ->
        start(i, node[i].occ, token);
        node[i].mark = node[i].occ;
        forget_request(i)
    :: else -> node[i].stage = TO_SEND
    fi
#else
#ifdef V_ASK_ANEW
    if
    :: node[i].kind != FINISH -> forget_request(i)
    :: else -> node[i].stage = TO_SEND
    fi
#else
#ifdef V_FINISH_ONCE
    if
    :: node[i].kind == FINISH ->
        node[i].work = IDLE;
        node[i].work_occ = 0;
        node[i].work_tok = 0;
        forget_request(i)
    :: else -> node[i].stage = TO_SEND
    fi
#else
    node[i].stage = TO_SEND
#endif
#endif
#endif
#endif
}

inline send_finish(i)
{
    node[i].kind = FINISH;
    node[i].stage = SENT;
    node[i].tok = node[i].work_tok;
    printf("node %d sends the finish of token %d\n", i, node[i].tok)
}

#ifdef V_ERROR_IS_WON
#define MAY_ASK(i) (node[i].work == IDLE)
#else
#define MAY_ASK(i) (node[i].work != ENDED)
#endif

proctype a_node(byte i)
{
    byte answer, answer_tok, o, other;
end:
    do
    /* decide.c: asks for the next occurrence, or closes a range */
    :: atomic {
        node[i].up && node[i].kind == NOTHING && MAY_ASK(i) && node[i].mark < due &&
        !(node[i].waits && IS_HELD && !(IS_MINE(i) && node[i].work == IDLE)) ->
        node[i].waits = false;
        node[i].after = node[i].mark;
        node[i].stage = SENT;
        if
        :: node[i].kind = CLAIM; node[i].occ = node[i].mark + 1
#ifndef NO_CLOSE
        :: node[i].mark + 1 < due -> node[i].kind = SKIP; node[i].occ = due - 1
        :: node[i].kind = SKIP; node[i].occ = due
#endif
        fi;
        if
        :: node[i].kind == CLAIM ->
            printf("node %d claims occurrence %d from mark %d\n", i, node[i].occ, node[i].after)
        :: else ->
            printf("node %d closes up to %d from mark %d\n", i, node[i].occ, node[i].after)
        fi
       }
    /* fire.c: put_back: asked again exactly as it was */
    :: atomic {
        node[i].up && node[i].kind != NOTHING && node[i].stage == TO_SEND ->
        node[i].stage = SENT;
#ifndef V_NO_NONCE
        /* On a new connection: what the old one still has on its way is refused from now on. */
        forget_late(i);
#endif
        printf("node %d asks again (kind %d, occurrence %d)\n", i, node[i].kind, node[i].occ)
       }
    /* the callback ends */
#ifdef V_RELEASE_FIRST
    :: atomic {
        node[i].up && node[i].work == RUNNING && node[i].kind == NOTHING && node[i].work_tok != 0 ->
        send_finish(i);
        node[i].work_tok = 0
       }
    :: atomic {
        node[i].up && node[i].work == RUNNING && node[i].work_tok == 0 && node[i].kind == NOTHING ->
        node[i].work = IDLE;
        node[i].work_occ = 0
       }
#else
    :: atomic {
        node[i].up && node[i].work == RUNNING ->
        node[i].work = ENDED;
        printf("node %d: the callback of token %d ends\n", i, node[i].work_tok)
       }
    :: atomic {
        node[i].up && node[i].work == ENDED && node[i].kind == NOTHING ->
        send_finish(i)
       }
#endif
    /* the store decides */
#ifdef V_PAUSE_CHECK_FIRST
    :: atomic {
        node[i].stage == SENT && node[i].kind != FINISH ->
        saw_paused[i] = paused;
        node[i].stage = CHECKED
       }
    :: atomic {
        (node[i].stage == CHECKED || (node[i].stage == SENT && node[i].kind == FINISH)) ->
#else
    :: atomic {
        node[i].stage == SENT ->
#endif
        if
        :: node[i].kind == FINISH -> finish(i, node[i].tok)
        :: else -> claim(i, node[i].kind, node[i].occ, node[i].after)
        fi;
        node[i].stage = ANSWERED;
        node[i].answer = answer;
        node[i].answer_tok = answer_tok;
        node[i].answer_mark = mark;
        printf("the store answers node %d: %d, token %d, mark %d\n", i, answer, answer_tok, mark);
        answer = 0;
        answer_tok = 0
       }
    :: atomic {
        node[i].up && node[i].stage == ANSWERED ->
        apply_answer(i)
       }
    /* trouble: the request or its answer is lost, or the request arrives later than it should */
    :: atomic {
        node[i].up && (node[i].stage == SENT || node[i].stage == ANSWERED) && faults > 0 ->
        faults--;
        printf("node %d hears nothing of its request (kind %d)\n", i, node[i].kind);
        if
        :: skip
        :: node[i].stage == SENT && lates > 0 && node[i].late == NOTHING ->
            lates--;
            node[i].late = node[i].kind;
            node[i].late_occ = node[i].occ;
            node[i].late_after = node[i].after;
            node[i].late_tok = node[i].tok
        fi;
        unknown(i)
       }
    /* refused with the promise that nothing was changed: decided anew */
    :: atomic {
        node[i].up && node[i].stage == SENT && node[i].kind != FINISH && faults > 0 ->
        faults--;
        printf("node %d: the store cannot be reached\n", i);
        if
#ifndef V_REFUSAL_SETTLES
        :: node[i].unresolved -> node[i].stage = TO_SEND
#endif
        :: else -> forget_request(i)
        fi
       }
    :: atomic {
        node[i].late != NOTHING ->
        if
        :: node[i].late == FINISH -> finish(i, node[i].late_tok)
        :: else -> claim(i, node[i].late, node[i].late_occ, node[i].late_after)
        fi;
        printf("a late request of node %d arrives: answered %d\n", i, answer);
        answer = 0;
        answer_tok = 0;
        forget_late(i)
       }
    /* kill -9, and a start under another id */
    :: atomic {
        node[i].up && crashes > 0 ->
        crashes--;
        node[i].up = false;
        printf("node %d is killed\n", i);
        if
        :: skip
        :: node[i].gone = true
        fi;
        if
        :: holder == i + 1 -> holder_dead = true
        :: else
        fi;
        node[i].work = IDLE;
        node[i].work_occ = 0;
        node[i].work_tok = 0;
        node[i].waits = false;
        /* Its request may arrive all the same. */
        if
        :: node[i].stage == SENT && node[i].late == NOTHING ->
            node[i].late = node[i].kind;
            node[i].late_occ = node[i].occ;
            node[i].late_after = node[i].after;
            node[i].late_tok = node[i].tok
        :: skip
        fi;
        forget_request(i)
       }
    :: atomic {
        !node[i].up && !node[i].gone && node[i].late == NOTHING ->
        node[i].up = true;
#ifdef V_START_RESETS_MARK
        mark = 0;
#endif
#ifdef V_START_FREES_HOLDER
        holder = 0;
#endif
        node[i].mark = mark;
        printf("node %d starts, announces the job and learns mark %d\n", i, mark)
       }
    /* reap: a dead owner's run becomes INTERRUPTED */
    :: atomic {
        node[i].up && holder != 0 && holder_dead ->
        holder = 0;
        holder_dead = false;
        holder_occ = 0;
        printf("node %d finds the dead owner's run\n", i)
       }
    od
}

proctype the_clock()
{
end:
    do
    :: atomic { due < LAST -> due++; printf("occurrence %d is due\n", due) }
    od
}

#if OPERATOR
inline set_paused(value)
{
    paused = value;
#ifdef V_PAUSE_ONE_NODE
    paused_here[0] = value;
#endif
}

/* A call to the store has a moment in which it acts, and a later one in which it returns. */
proctype the_operator()
{
    bool asked;
end:
    do
    :: atomic { acts < 2 && !paused && !asked -> acts++; set_paused(true); asked = true;
                printf("pause acts\n") }
    :: atomic { asked -> asked = false; pause_holds = true; printf("pause returns\n") }
    :: atomic { pause_holds -> pause_holds = false; set_paused(false); printf("resume acts\n") }
    /* a resume whose outcome stays unknown, and after it another pause */
    :: atomic { pause_holds && acts < 2 && !late_resume ->
                acts++; pause_holds = false; late_resume = true; asked = true;
                printf("resume is lost on its way; pause acts again\n") }
    :: atomic { late_resume ->
                late_resume = false;
#ifdef V_NO_NONCE
                set_paused(false);
                printf("the late resume arrives and acts\n")
#else
                printf("the late resume arrives and is refused\n")
#endif
              }
    od
}
#endif

/* Faults are bounded, so every behaviour ends. Then all must be settled (progress): this holds as
 * long as one node lives, and no node stays down here. */
#define SETTLED (mark == LAST && due == LAST && !(IS_HELD))

proctype the_end()
{
    byte o = 1;
end:
    timeout ->
    printf("nothing goes on: mark %d, due %d, holder %d\n", mark, due, holder);
#ifndef SAFETY_ONLY
    assert(SETTLED); /* progress */
#endif
    do
    :: o <= mark ->
        assert(accounts[o] == 1); /* none is forgotten */
#if defined(NO_CLOSE) && defined(HELD_WAIT) && !OPERATOR
        assert(grants[o] == 1); /* progress: each was granted */
#endif
        o++
    :: else -> break
    od
}

init {
    byte i = 0;
    atomic {
        do
        :: i < NODES -> node[i].up = true; run a_node(i); i++
        :: else -> break
        od;
        run the_clock();
#if OPERATOR
        run the_operator();
#endif
        run the_end()
    }
}
