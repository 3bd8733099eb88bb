/* parse.h: reads a crontab that is a text; what fails is a failed test. */
#ifndef CROND_PARSE_H
#define CROND_PARSE_H

#include "elected_crond/crontab.h"

crontab *parse_bytes(const char *text, size_t bytes);
crontab *parse(const char *text);

#endif
