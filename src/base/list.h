/* list.h: an intrusive, circular, doubly linked list. A zeroed link is on no list. */
#ifndef JSI_LIST_H
#define JSI_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct jsi_link {
    struct jsi_link *next, *previous;
} jsi_link;

#define JSI_CONTAINER(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void jsi_list_init(jsi_link *list)
{
    list->next = list;
    list->previous = list;
}

static inline bool jsi_list_is_empty(const jsi_link *list)
{
    return list->next == list;
}

static inline bool jsi_link_is_listed(const jsi_link *link)
{
    return link->next != NULL;
}

static inline void jsi_list_insert_before(jsi_link *place, jsi_link *link)
{
    link->next = place;
    link->previous = place->previous;
    place->previous->next = link;
    place->previous = link;
}

static inline void jsi_list_append(jsi_link *list, jsi_link *link)
{
    jsi_list_insert_before(list, link);
}

static inline void jsi_list_prepend(jsi_link *list, jsi_link *link)
{
    jsi_list_insert_before(list->next, link);
}

/* Harmless on a link that is on no list. */
static inline void jsi_list_remove(jsi_link *link)
{
    if (link->next != NULL) {
        link->next->previous = link->previous;
        link->previous->next = link->next;
        link->next = NULL;
        link->previous = NULL;
    }
}

static inline jsi_link *jsi_list_first(const jsi_link *list)
{
    return list->next == list ? NULL : list->next;
}

/* Takes the first link off, or NULL. */
static inline jsi_link *jsi_list_take(jsi_link *list)
{
    jsi_link *first = jsi_list_first(list);
    if (first != NULL) {
        jsi_list_remove(first);
    }
    return first;
}

#endif
