/* opencl_calls.c - the program's calls of OpenCL: their rows, and the delays they are made to take. */
#define _GNU_SOURCE
#include "opencl_layer.h"

#include "clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_llong number_last;

int64_t thread_number(void)
{
    static _Thread_local int64_t number;
    if (!number) number = gettid();
    return number;
}

/* ---- delays ---- */

static const char *const class_names[CALL_CLASSES] = { "launch", "copy",  "memset", "sync",   "alloc",
                                                       "event",  "query", "stream", "module", "other" };
#define BOUNDARY (1u << LAUNCH | 1u << COPY | 1u << MEMSET | 1u << SYNC | 1u << ALLOC | 1u << EVENT)

static int64_t delay_ns = -1; /* -1: calls are not watched */
static int before;
static unsigned delayed = BOUNDARY;
static atomic_ullong calls[CALL_CLASSES], waited_ns[CALL_CLASSES];

static unsigned listed(const char *list)
{
    unsigned found = 0;
    for (size_t length; *list; list += length + (list[length] == ',')) {
        int class = 0;
        length = strcspn(list, ",");
        if (length == 8 && !strncmp(list, "boundary", 8)) found |= BOUNDARY;
        else if (length == 3 && !strncmp(list, "all", 3)) found |= (1u << CALL_CLASSES) - 1;
        else {
            while (class < CALL_CLASSES && (strlen(class_names[class]) != length || strncmp(class_names[class], list, length))) class++;
            if (class == CALL_CLASSES) return 0;
            found |= 1u << class;
        }
    }
    return found;
}

const char *delay_settings(void)
{
    const char *ns = getenv("TB_SLACK_NS"), *list = getenv("TB_SLACK_CLASSES"), *where = getenv("TB_SLACK_WHERE");
    if (ns && *ns) {
        char *rest;
        errno = 0;
        long long value = strtoll(ns, &rest, 10);
        if (errno || rest == ns || *rest || value < 0) return "TB_SLACK_NS is not a number of ns";
        delay_ns = value;
    }
    if (list && *list && !(delayed = listed(list))) return "TB_SLACK_CLASSES names an unknown class of calls";
    if (where && *where && strcmp(where, "before") && strcmp(where, "after")) return "TB_SLACK_WHERE is neither before nor after";
    before = where && strcmp(where, "before") == 0;
    return NULL;
}

int delay_wanted(void) { return delay_ns >= 0; }

static void delay(const struct call *call)
{
    if (delay_ns < 0 || !(delayed >> call->class & 1)) return;
    atomic_fetch_add_explicit(&calls[call->class], 1, memory_order_relaxed);
    if (!delay_ns) return;
    struct row row;
    row_begin(&row, 'L');
    row.start = clock_now();
    row.end = clock_spin(row.start + delay_ns);
    atomic_fetch_add_explicit(&waited_ns[call->class], (unsigned long long)(row.end - row.start), memory_order_relaxed);
    if (!recording || !call->number) return;
    row.corr = call->number, row.tid = thread_number(), row.what = call->class;
    output_begin();
    output_row(&row);
    output_end();
}

void delay_after(const struct call *call)
{
    if (!before) delay(call);
}

void delay_tell_settings(void)
{
    char list[256] = "";
    output_fact("slack_ns %" PRId64, delay_ns);
    if (delay_ns < 0) return;
    for (int class = 0; class < CALL_CLASSES; class++)
        if (delayed >> class & 1) strcat(strcat(list, *list ? "," : ""), class_names[class]);
    output_fact("slack_at %s", before ? "before" : "after");
    output_fact("slack_classes %s", list);
    strcpy(list, "");
    for (int class = 0; class < CALL_CLASSES; class++) sprintf(list + strlen(list), " %d=%s", class, class_names[class]);
    output_fact("slackclass%s", list);
}

void delay_tell_totals(void)
{
    for (int class = 0; class < CALL_CLASSES; class++)
        if (calls[class]) output_fact("slack_total %s calls=%llu waited_ns=%llu", class_names[class], calls[class], waited_ns[class]);
}

/* ---- calls ---- */

struct call call_begin(const char *name, enum call_class class)
{
    struct call call = { name, class, 0, 0, 0 };
    if (recording) call.number = atomic_fetch_add_explicit(&number_last, 1, memory_order_relaxed) + 1;
    if (before) delay(&call);
    call.begin = clock_now();
    return call;
}

void call_return(struct call *call) { call->end = clock_now(); }

void call_row(const struct call *call, cl_int result)
{
    struct row row;
    row_begin(&row, 'A');
    row.start = call->begin, row.end = call->end, row.corr = call->number, row.tid = thread_number();
    row.name = output_name(call->name), row.ret = result;
    output_row(&row);
}

cl_int call_done(struct call *call, cl_int result)
{
    call_return(call);
    if (call->number && recording) {
        output_begin();
        call_row(call, result);
        output_end();
    }
    delay_after(call);
    return result;
}
