/* cluster.h: the way to a cluster: which lock backend, and a handle that only asks and commands. */
#ifndef CTL_CLUSTER_H
#define CTL_CLUSTER_H

#include "ctl/ctl.h"

#define CTL_URL_BYTES 4096

/* Finds the URL: --lock, --lock-file, $JOBSCHED_LOCK. CTL_OK, or a status with the message said. */
int ctl_cluster_url(const ctl_request *request, char out_url[CTL_URL_BYTES]);

/* Whether all that the URL names lies within one process, where nobody else can look. */
int ctl_cluster_is_single(const char *url);

/* Opens what the request names, for asking and commanding. CTL_OK, or a status with the message
 * said. To be closed with jobsched_close(). */
int ctl_cluster_open(const ctl_request *request, jobsched **out_cluster);

/* The same with a URL that is known; migrates: it may create or change the schema. Without a
 * message: CTL_OK, or the library's code. */
int ctl_cluster_open_url(const ctl_request *request, const char *url, int migrates,
                         jobsched **out_cluster);

/* Calls show once, or with --watch again and again until it fails. */
int ctl_cluster_watch(const ctl_request *request,
                      int (*show)(const ctl_request *request, jobsched *cluster));

#endif
