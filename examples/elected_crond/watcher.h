/* watcher.h: a process that outlives elected-crond only to end its commands. */
#ifndef ELECTED_CROND_WATCHER_H
#define ELECTED_CROND_WATCHER_H

#include <sys/types.h>

/* Commands are killed with the thread that started them by PR_SET_PDEATHSIG, but what they started
 * in turn is not. So a second process holds the reading end of a pipe whose writing end only
 * elected-crond has. When elected-crond is gone, however it died, the pipe ends, and the watcher
 * kills every process group that was still in its list: the cluster grants their jobs elsewhere
 * from now on.
 *
 * Starts it. To be called before the process has threads. -1 with errno set. */
int watcher_start(void);

/* Puts a process group on the list or takes it off. From any thread. A group is put on before its
 * command is let go, and taken off while its leader is not yet reaped, so that the number cannot
 * have passed to another group. -1: the watcher is gone. */
int watcher_add(pid_t group);
int watcher_remove(pid_t group);

/* Ends the watcher, which then kills the groups that are still on the list, and waits for it a
 * short time. */
void watcher_stop(void);

#endif
