/* slack.c - see slack.h. */
#define _GNU_SOURCE
#include "slack.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "settings.h"

const char *const call_class_names[CALL_CLASSES] = { "launch", "copy",  "memset", "sync",   "alloc",
                                                     "event",  "query", "stream", "module", "other" };

enum { BOUNDARY = 1u << LAUNCH | 1u << COPY | 1u << MEMSET | 1u << SYNC | 1u << ALLOC | 1u << EVENT };

static unsigned classes_of(const char *list)
{
    unsigned found = 0;
    for (size_t length; *list; list += length + (list[length] == ',')) {
        int class = 0;
        length = strcspn(list, ",");
        if (length == 8 && !strncmp(list, "boundary", 8)) found |= BOUNDARY;
        else if (length == 3 && !strncmp(list, "all", 3)) found |= (1u << CALL_CLASSES) - 1;
        else {
            while (class < CALL_CLASSES && (strlen(call_class_names[class]) != length || strncmp(call_class_names[class], list, length)))
                class++;
            if (class == CALL_CLASSES) return 0;
            found |= 1u << class;
        }
    }
    return found;
}

const char *slack_settings(struct slack *slack)
{
    const char *list = getenv("TB_SLACK_CLASSES"), *where = getenv("TB_SLACK_WHERE"), *wrong = NULL;
    *slack = (struct slack){ .ns = -1, .classes = BOUNDARY };
    slack->ns = setting("TB_SLACK_NS", -1, MOST_SLACK_NS, &wrong);
    slack->from = setting("TB_JITTER_FROM_NS", 0, MOST_SLACK_NS, &wrong);
    slack->to = setting("TB_JITTER_TO_NS", -1, MOST_SLACK_NS, &wrong);
    slack->seed = (uint64_t)setting("TB_JITTER_SEED", 0, MOST_SEED, &wrong);
    slack->rank = output_rank();
    if (wrong) return wrong;
    if (list && *list && !(slack->classes = classes_of(list))) return "TB_SLACK_CLASSES names an unknown class of calls";
    if (where && *where && strcmp(where, "before") && strcmp(where, "after")) return "TB_SLACK_WHERE is neither before nor after";
    slack->before = where && strcmp(where, "before") == 0;
    if (slack->to >= 0 && slack->from > slack->to) return "TB_JITTER_FROM_NS is more than TB_JITTER_TO_NS";
    if (slack->to >= 0 && slack->ns < 0) slack->ns = 0;
    return NULL;
}

/* ---- random delays: splitmix64, whose every output is a bijection of its counter ---- */

static _Atomic uint64_t threads, drawn, drawn_ns;

static uint64_t mixed(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

int64_t slack_length(const struct slack *slack, int64_t fixed)
{
    static const uint64_t step = UINT64_C(0x9e3779b97f4a7c15);
    static __thread uint64_t state;
    static __thread int begun;
    if (slack->to < 0) return fixed;
    if (!begun) {
        begun = 1;
        state = mixed(mixed(mixed(slack->seed + step) + (uint64_t)slack->rank + step) + atomic_fetch_add(&threads, 1) + step);
    }
    uint64_t z = mixed(state += step), width = (uint64_t)(slack->to - slack->from) + 1;
    int64_t length = slack->from + (int64_t)((unsigned __int128)z * width >> 64);
    atomic_fetch_add_explicit(&drawn, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&drawn_ns, (uint64_t)length, memory_order_relaxed);
    return fixed + length;
}

void slack_tell_totals(const struct slack *slack)
{
    if (slack->to >= 0) output_fact("jitter_total calls=%" PRIu64 " drawn_ns=%" PRIu64, (uint64_t)drawn, (uint64_t)drawn_ns);
}

void slack_tell(const struct slack *slack)
{
    char list[256] = "";
    output_fact("slack_ns %" PRId64, slack->ns);
    if (slack->ns < 0) return;
    for (int class = 0; class < CALL_CLASSES; class ++)
        if (slack->classes >> class & 1) strcat(strcat(list, *list ? "," : ""), call_class_names[class]);
    output_fact("slack_at %s", slack->before ? "before" : "after");
    output_fact("slack_classes %s", list);
    strcpy(list, "");
    for (int class = 0; class < CALL_CLASSES; class ++) sprintf(list + strlen(list), " %d=%s", class, call_class_names[class]);
    output_fact("slackclass%s", list);
    if (slack->to >= 0) output_fact("jitter %" PRId64 " %" PRId64 " %" PRIu64, slack->from, slack->to, slack->seed);
}
