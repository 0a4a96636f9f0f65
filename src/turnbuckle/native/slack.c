/* slack.c - see slack.h. */
#define _GNU_SOURCE
#include "slack.h"

#include <inttypes.h>
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
    *slack = (struct slack){ -1, BOUNDARY, 0 };
    slack->ns = setting("TB_SLACK_NS", -1, MOST_SLACK_NS, &wrong);
    if (wrong) return wrong;
    if (list && *list && !(slack->classes = classes_of(list))) return "TB_SLACK_CLASSES names an unknown class of calls";
    if (where && *where && strcmp(where, "before") && strcmp(where, "after")) return "TB_SLACK_WHERE is neither before nor after";
    slack->before = where && strcmp(where, "before") == 0;
    return NULL;
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
}
