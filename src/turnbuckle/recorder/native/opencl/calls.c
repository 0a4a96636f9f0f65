/* calls.c - the program's calls of OpenCL: their rows, and the delays they are made to take. */
#define _GNU_SOURCE
#include "layer.h"

#include "clock.h"

#include <stdio.h>
#include <unistd.h>

static atomic_llong number_last;

int64_t thread_number(void)
{
    static _Thread_local int64_t number;
    if (!number) number = gettid();
    return number;
}

/* ---- delays ---- */

static struct slack slack = { .ns = -1, .to = -1 };
static atomic_ullong calls[CALL_CLASSES], waited_ns[CALL_CLASSES];

const char *delay_settings(void) { return slack_settings(&slack); }

int delay_wanted(void) { return slack.ns >= 0; }

static void delay(const struct call *call)
{
    if (slack.ns < 0 || !(slack.classes >> call->class & 1)) return;
    atomic_fetch_add_explicit(&calls[call->class], 1, memory_order_relaxed);
    int64_t length = slack_length(&slack, slack.ns);
    if (!length) return;
    struct row row;
    row_begin(&row, 'L');
    row.start = clock_now();
    row.end = clock_spin(row.start, length);
    atomic_fetch_add_explicit(&waited_ns[call->class], (unsigned long long)(row.end - row.start), memory_order_relaxed);
    if (!recording || !call->number) return;
    row.corr = call->number, row.tid = thread_number(), row.what = call->class;
    output_begin();
    output_row(&row);
    output_end();
}

void delay_after(const struct call *call)
{
    if (!slack.before) delay(call);
}

void delay_tell_settings(void) { slack_tell(&slack); }

void delay_tell_totals(void)
{
    for (int class = 0; class < CALL_CLASSES; class++)
        if (calls[class]) output_fact("slack_total %s calls=%llu waited_ns=%llu", call_class_names[class], calls[class], waited_ns[class]);
    slack_tell_totals(&slack);
}

/* ---- calls ---- */

struct call call_begin(const char *name, enum call_class class)
{
    struct call call = { name, class, 0, 0, 0 };
    if (recording) call.number = atomic_fetch_add_explicit(&number_last, 1, memory_order_relaxed) + 1;
    if (slack.before) delay(&call);
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
