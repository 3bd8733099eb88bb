/* cron_element.h: one element of a comma list in a cron field. */
#ifndef JSI_CRON_ELEMENT_H
#define JSI_CRON_ELEMENT_H

#include "schedule/cron.h"

/* What a field allows. */
struct jsi_field_rule {
    const char *name;
    const char *names; /* three letters each, from the value low on; "" for none */
    enum jsi_field field;
    int low, high;
    int size;      /* number of distinct values */
    int hash_high; /* upper end of plain H and ~ */
    char unit;     /* of "@every" in hints; 0 for none */
};

enum jsi_form {
    JSI_FORM_RANGE,
    JSI_FORM_ANY,              /* star with step 1, or "?": lifts a day field's restriction */
    JSI_FORM_FROM_END,         /* L, L-n */
    JSI_FORM_WEEKDAY_FROM_END, /* LW, L-nW */
    JSI_FORM_WEEKDAY_NEAR,     /* nW */
    JSI_FORM_NTH,              /* d#n */
    JSI_FORM_LAST              /* dL, d#L */
};

struct jsi_element {
    enum jsi_form form;
    int low, high, step; /* high < low: the range wraps */
    int nth;             /* 1-5 */
    bool interval_like;
};

/* The element is [begin, end), the whole field (without '+') [field_begin, field_end). */
struct jsi_element_reader {
    const struct jsi_source *source;
    const struct jsi_field_rule *rule;
    const char *key;
    size_t field_begin, field_end;
    size_t begin, end;
    size_t index; /* of the element in its list */
};

int jsi_element_parse(const struct jsi_element_reader *reader, struct jsi_element *out_element);

/* A number or a name; the error points at begin. */
int jsi_element_value(const struct jsi_element_reader *reader, size_t begin, size_t end,
                      int *out_value);

/* The day forms L, L-n, LW, L-nW, nW, "?", d#n, dL, d#L. out_known tells whether the
 * element is one of them (else it is an ordinary item). */
int jsi_element_day_form(const struct jsi_element_reader *reader, struct jsi_element *out_element,
                         bool *out_known);

/* Whether it is one of the field's names. */
bool jsi_element_name(const struct jsi_element_reader *reader, size_t begin, size_t end,
                      int *out_value);

/* What to write instead of lower-case letters in a day field ("l", "15w", "fril"), or "". */
const char *jsi_element_capitals(const struct jsi_element_reader *reader, size_t begin, size_t end);

/* Refuses the element as a whole. */
int jsi_element_refuse(const struct jsi_element_reader *reader, int reason, const char *what);

/* At most nine digits (else out_value is INT32_MAX, larger than any field); false when
 * [begin, end) is empty or holds anything but digits. */
bool jsi_element_number(const struct jsi_source *source, size_t begin, size_t end, int *out_value);

#endif
