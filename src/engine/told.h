/* told.h: how much of what a backend does was told to observers already. */
#ifndef JSI_TOLD_H
#define JSI_TOLD_H

#include <stdint.h>

/* Failures of one lane since its last success. */
typedef struct jsi_outage {
    int failures;
    uint32_t told_classes; /* a bit per JOBSCHED_E... code */
} jsi_outage;

/* What a backend told by config.notice, of one kind. */
enum { JSI_NOTICE_KINDS = 4 };
typedef struct jsi_notices {
    int64_t from_mono_ms; /* since when told counts */
    uint64_t untold;      /* since the last that was told */
    uint32_t told;
} jsi_notices;

#endif
