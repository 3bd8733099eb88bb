/* wake.h: a descriptor that one thread sleeps on in poll() and any other makes readable. */
#ifndef JSI_WAKE_H
#define JSI_WAKE_H

#include <stdbool.h>
#include <stdint.h>

int jsi_wake_open(int *out_fd);
void jsi_wake_close(int fd); /* -1 is ignored */

/* Makes it readable; never blocks, and calls coalesce. */
void jsi_wake_set(int fd);

/* Sleeps until it is set, or the other descriptor (-1: none) is readable, hung up or failed, or
 * wait_ms have passed. Takes away that it was set. Returns whether the other one was the cause. */
bool jsi_wake_wait(int fd, int other_fd, int64_t wait_ms);

#endif
