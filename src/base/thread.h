/* thread.h: the little of threads that the engine needs. */
#ifndef JSI_THREAD_H
#define JSI_THREAD_H

#include <pthread.h>
#include <stdint.h>

/* A condition whose timed waits follow the monotonic clock. */
int jsi_cond_init(pthread_cond_t *out_condition);

/* Waits for a signal, at most wait_ms (0 or less: returns at once). */
void jsi_cond_wait_ms(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t wait_ms);

/* Starts a joinable thread with every signal blocked, so that the host's handlers
 * never run on it (and a repeating signal never cuts a backend's system calls short). */
int jsi_thread_start(pthread_t *out_thread, const char *name, void *(*body)(void *arg), void *arg);

#endif
