/* fiber.c: see the header. One thread. */
#include "sim/fiber.h"

#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#endif
#ifdef FIBER_ASAN
#include <sanitizer/common_interface_defs.h>
enum { STACK_BYTES = 512 * 1024 };
#else
enum { STACK_BYTES = 96 * 1024 };
#endif

static ucontext_t outside;
static struct fiber *inside; /* NULL: none is running */
#ifdef FIBER_ASAN
static const void *outside_bottom;
static size_t outside_bytes;
static void *outside_fake;
#endif

void fiber_init(struct fiber *fiber)
{
    memset(fiber, 0, sizeof *fiber);
    fiber->stack = malloc(STACK_BYTES);
    if (fiber->stack == NULL) {
        abort();
    }
}

void fiber_fini(struct fiber *fiber)
{
    free(fiber->stack);
    fiber->stack = NULL;
}

/* The stack of a body that has ended is entered once more for the next body. */
static void trampoline(void)
{
    for (;;) {
        struct fiber *self = inside;
#ifdef FIBER_ASAN
        __sanitizer_finish_switch_fiber(self->fake_stack, &outside_bottom, &outside_bytes);
#endif
        self->body(self->arg);
        self->body = NULL;
        inside = NULL;
#ifdef FIBER_ASAN
        __sanitizer_start_switch_fiber(&self->fake_stack, outside_bottom, outside_bytes);
#endif
        (void)swapcontext(&self->context, &outside);
    }
}

static bool enter(struct fiber *fiber)
{
    inside = fiber;
#ifdef FIBER_ASAN
    __sanitizer_start_switch_fiber(&outside_fake, fiber->stack, STACK_BYTES);
#endif
    (void)swapcontext(&outside, &fiber->context);
#ifdef FIBER_ASAN
    __sanitizer_finish_switch_fiber(outside_fake, NULL, NULL);
#endif
    return fiber->body != NULL;
}

bool fiber_call(struct fiber *fiber, fiber_fn body, void *arg)
{
    fiber->body = body;
    fiber->arg = arg;
    if (!fiber->begun) {
        fiber->begun = true;
        (void)getcontext(&fiber->context);
        fiber->context.uc_stack.ss_sp = fiber->stack;
        fiber->context.uc_stack.ss_size = STACK_BYTES;
        fiber->context.uc_link = NULL;
        makecontext(&fiber->context, trampoline, 0);
    }
    return enter(fiber);
}

bool fiber_resume(struct fiber *fiber)
{
    return enter(fiber);
}

void fiber_yield(void)
{
    struct fiber *self = inside;
    inside = NULL;
#ifdef FIBER_ASAN
    __sanitizer_start_switch_fiber(&self->fake_stack, outside_bottom, outside_bytes);
#endif
    (void)swapcontext(&self->context, &outside);
#ifdef FIBER_ASAN
    __sanitizer_finish_switch_fiber(self->fake_stack, &outside_bottom, &outside_bytes);
#endif
}

void fiber_abandon(struct fiber *fiber)
{
    fiber->begun = false;
    fiber->body = NULL;
    fiber->fake_stack = NULL;
}
