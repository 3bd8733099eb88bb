/* fiber.h: a function on a stack of its own that can be left and entered again. It lets the engine
 * wait inside a backend call while the rest of the cluster goes on, without threads. */
#ifndef SIM_FIBER_H
#define SIM_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <ucontext.h>

typedef void (*fiber_fn)(void *arg);

struct fiber {
    ucontext_t context;
    void *stack;
    void *fake_stack; /* AddressSanitizer's */
    fiber_fn body;
    void *arg;
    bool begun;
};

void fiber_init(struct fiber *fiber);
void fiber_fini(struct fiber *fiber);

/* Enters the body (again), until it yields or returns. Returns true if it yielded. */
bool fiber_call(struct fiber *fiber, fiber_fn body, void *arg);
bool fiber_resume(struct fiber *fiber);

/* Leaves the fiber that is running. */
void fiber_yield(void);

/* The body is never entered again: what it had on its stack is lost, as in a crash. */
void fiber_abandon(struct fiber *fiber);

#endif
