/* lock_url.h: what may be secret in a lock's URL. */
#ifndef ELECTED_CROND_LOCK_URL_H
#define ELECTED_CROND_LOCK_URL_H

/* Whether a command line may not hold it, which every user of the machine can read. Client libraries
 * do not agree on where a password with '/', '?', '#' or '@' in it ends, so whatever one of them
 * might take for one counts. */
int lock_url_may_hold_password(const char *url);

/* The URL without what may be secret: user, password, and parameters. */
void lock_url_redact(const char *url, char *text, unsigned long bytes);

#endif
