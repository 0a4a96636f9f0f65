/* delays.c - see delays.h. */
#define _GNU_SOURCE
#include "delays.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "output.h"
#include "slack.h"

enum { CALLS = 4096, GAP_OF_IDS = 64, WAITING = 1 << 17, MARKS = 1024 };

/* ---- classes, by names: the RULES of turnbuckle.profile.classify ---- */

static const struct {
    int class;
    const char *words; /* separated by blanks; a name that holds one is of the class, first row wins */
} rules[] = {
    { EVENT, "StreamWaitEvent StreamWaitValue StreamWriteValue EventRecord EventCreate EventDestroy EventElapsed" },
    { OTHER, "LaunchHostFunc GetProcAddress GetDriverEntryPoint GetFuncBySymbol" },
    { SYNC, "Synchronize CtxSync" },
    { QUERY, "Query MemGetInfo MemPoolGetAttribute DefaultMemPool GetLastError PeekAtLastError IsCapturing GetCaptureInfo GetAttribute "
             "GetDevice SetDevice OccupancyMax" },
    { STREAM, "GraphInstantiate GraphCreate GraphDestroy GraphAdd GraphExec GraphKernel GraphMemcpy GraphMemset StreamCreate "
              "StreamDestroy StreamBegin StreamEnd StreamCaptureMode" },
    { LAUNCH, "Launch" },
    { COPY, "Memcpy MemPrefetch" },
    { MEMSET, "Memset" },
    { ALLOC, "Malloc Free HostAlloc HostRegister Hostregister HostUnRegister HostUnregister MemAlloc MemFree MemHost MemCreate "
             "MemRelease MemMap MemUnmap MemAddress MemPool MemSetAccess MemAdvise ArrayCreate Array3DCreate" },
    { MODULE, "Module Library Kernel Function FuncGet FuncSet LinkCreate LinkAdd LinkComplete" },
};

static int holds_one_of(const char *name, const char *words)
{
    char word[64];
    while (*words) {
        size_t length = strcspn(words, " ");
        memcpy(word, words, length);
        word[length] = 0;
        if (strstr(name, word)) return 1;
        words += length + strspn(words + length, " ");
    }
    return 0;
}

static int class_of(const char *name)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (holds_one_of(name, rules[i].words)) return rules[i].class;
    return OTHER;
}

const char *delays_class(const char *name) { return call_class_names[class_of(name)]; }

/* ---- settings ---- */

static _Atomic int64_t delay_ns = -1; /* -1: calls are not watched */
static struct slack told = { .to = -1 };
static const char *statistics;

const char *delays_settings(void)
{
    const char *wrong = slack_settings(&told);
    statistics = getenv("TB_SLACK_STATS");
    if (statistics && !*statistics) statistics = NULL;
    delay_ns = told.ns < 0 && statistics ? 0 : told.ns;
    return wrong;
}

int delays_wanted(void) { return delay_ns >= 0; }

int delays_set(int64_t ns)
{
    if (delay_ns < 0 || ns < 0 || ns > MOST_SLACK_NS) return 0;
    delay_ns = ns;
    output_begin();
    if (output_on()) output_fact("slack_set %" PRId64 " %" PRId64, clock_now(), ns);
    output_end();
    return 1;
}

/* ---- waiting ---- */

static signed char known[2][CALLS]; /* class by runtime (0) or driver (1) and id; -1: not watched */
static _Atomic uint64_t calls[CALL_CLASSES], waited_ns[CALL_CLASSES], nested;
static __thread int depth, outer;

/* Delays on their way into the file.  The thread that waits never waits for the file: it claims a place in this ring; who writes
 * records (delays_write) empties it.  A ring that is full loses the record, not the count. */
struct waited { _Atomic int there; int class; uint32_t corr; int64_t start, end, tid; };
static struct waited ring[WAITING];
static _Atomic uint64_t claimed, written, unwritten;
static void (*call_writer)(void);

static int64_t thread_number(void)
{
    static __thread int64_t number;
    if (!number) number = syscall(SYS_gettid);
    return number;
}

static void keep(int class, uint32_t corr, int64_t start, int64_t end)
{
    uint64_t at = atomic_load_explicit(&claimed, memory_order_relaxed);
    do {
        if (at - atomic_load_explicit(&written, memory_order_acquire) >= WAITING) {
            atomic_fetch_add_explicit(&unwritten, 1, memory_order_relaxed);
            return;
        }
    } while (!atomic_compare_exchange_weak_explicit(&claimed, &at, at + 1, memory_order_relaxed, memory_order_relaxed));
    struct waited *place = &ring[at % WAITING];
    place->class = class, place->corr = corr, place->start = start, place->end = end, place->tid = thread_number();
    atomic_store_explicit(&place->there, 1, memory_order_release);
    if ((at + 1) % (WAITING / 8) == 0 && call_writer) call_writer();
}

void delays_write(void)
{
    struct row row;
    for (uint64_t at = atomic_load(&written);; at++) {
        struct waited *place = &ring[at % WAITING];
        if (!atomic_load_explicit(&place->there, memory_order_acquire)) return;
        row_begin(&row, 'L');
        row.start = place->start, row.end = place->end, row.corr = place->corr, row.tid = place->tid, row.what = place->class;
        output_row(&row);
        atomic_store_explicit(&place->there, 0, memory_order_relaxed);
        atomic_store_explicit(&written, at + 1, memory_order_release);
    }
}

static void wait(int class, uint32_t corr)
{
    atomic_fetch_add_explicit(&calls[class], 1, memory_order_relaxed);
    int64_t length = slack_length(&told, delay_ns);
    if (length <= 0) return;
    int64_t start = clock_now(), end = clock_spin(start, length);
    atomic_fetch_add_explicit(&waited_ns[class], (uint64_t)(end - start), memory_order_relaxed);
    if (output_on()) keep(class, corr, start, end);
}

void delays_call(int driver, CUpti_CallbackId id, const CUpti_CallbackData *call)
{
    int class = id < CALLS ? known[driver][id] : -1;
    if (class < 0) return;
    if (call->callbackSite == CUPTI_API_ENTER) {
        if (depth++) {
            atomic_fetch_add_explicit(&nested, 1, memory_order_relaxed);
            return;
        }
        outer = class;
        if (told.before) wait(outer, call->correlationId);
    } else if (depth > 0 && --depth == 0 && !told.before) {
        wait(outer, call->correlationId);
    }
}

CUptiResult delays_start(CUpti_SubscriberHandle subscriber, void (*writer)(void))
{
    static const CUpti_CallbackDomain domains[2] = { CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_CB_DOMAIN_DRIVER_API };
    int watched = 0;
    call_writer = writer;
    memset(known, -1, sizeof known);
    for (int driver = 0; driver < 2; driver++) {
        int missing = 0;
        for (CUpti_CallbackId id = 1; id < CALLS && missing < GAP_OF_IDS; id++) {
            const char *name = NULL;
            if (cuptiGetCallbackName(domains[driver], id, &name) != CUPTI_SUCCESS || !name) {
                missing++;
                continue;
            }
            missing = 0;
            int class = class_of(name);
            /* CUPTI has ids that it never calls back for and refuses */
            if (!(told.classes >> class & 1) || cuptiEnableCallback(1, subscriber, domains[driver], id) != CUPTI_SUCCESS) continue;
            known[driver][id] = (signed char)class;
            watched++;
        }
    }
    return watched ? CUPTI_SUCCESS : CUPTI_ERROR_NOT_SUPPORTED;
}

/* ---- what is told ---- */

struct mark { char label[48]; int64_t at; uint64_t calls[CALL_CLASSES], waited_ns[CALL_CLASSES]; };
static struct mark marks[MARKS];
static int mark_count;

void delays_mark(const char *label, int64_t at)
{
    if (delay_ns < 0 || mark_count == MARKS) return;
    struct mark *mark = &marks[mark_count++];
    size_t i = 0;
    for (; label[i] && i + 1 < sizeof mark->label; i++)
        mark->label[i] = label[i] == '"' || label[i] == '\\' || (unsigned char)label[i] < ' ' ? '_' : label[i];
    mark->label[i] = 0;
    mark->at = at;
    for (int class = 0; class < CALL_CLASSES; class ++) mark->calls[class] = calls[class], mark->waited_ns[class] = waited_ns[class];
}

void delays_tell_settings(void)
{
    struct slack now = told;
    now.ns = delay_ns;
    slack_tell(&now);
}

void delays_tell_totals(void)
{
    if (delay_ns < 0) return;
    for (int class = 0; class < CALL_CLASSES; class ++)
        if (calls[class])
            output_fact("slack_total %s calls=%" PRIu64 " waited_ns=%" PRIu64, call_class_names[class], (uint64_t)calls[class],
                        (uint64_t)waited_ns[class]);
    slack_tell_totals(&told);
    if (unwritten) output_fact("slack_unwritten %" PRIu64, (uint64_t)unwritten);
}

static void counts(FILE *file, const char *name, const _Atomic uint64_t *now, const uint64_t *then)
{
    fprintf(file, "\"%s\": {", name);
    for (int class = 0; class < CALL_CLASSES; class ++)
        fprintf(file, "%s\"%s\": %" PRIu64, class ? ", " : "", call_class_names[class], now ? (uint64_t)now[class] : then[class]);
    fprintf(file, "}");
}

void delays_statistics(void)
{
    if (!statistics) return;
    int made = output_create(statistics, 0);
    FILE *file = made < 0 ? NULL : fdopen(made, "w");
    if (!file) {
        say("the counts of delayed calls cannot be written: %s", strerror(made < 0 ? -made : errno));
        if (made >= 0) close(made);
        return;
    }
    fprintf(file, "{\"slack_ns\": %" PRId64 ", \"where\": \"%s\", \"classes\": [", (int64_t)delay_ns, told.before ? "before" : "after");
    for (int class = 0, first = 1; class < CALL_CLASSES; class ++)
        if (told.classes >> class & 1) fprintf(file, "%s\"%s\"", first ? "" : ", ", call_class_names[class]), first = 0;
    fprintf(file, "], \"nested_not_delayed\": %" PRIu64 ",\n ", (uint64_t)nested);
    counts(file, "calls", calls, NULL), fprintf(file, ",\n "), counts(file, "waited_ns", waited_ns, NULL);
    fprintf(file, ",\n \"marks\": [");
    for (int i = 0; i < mark_count; i++) {
        fprintf(file, "%s\n  {\"label\": \"%s\", \"t_ns\": %" PRId64 ", ", i ? "," : "", marks[i].label, marks[i].at);
        counts(file, "calls", NULL, marks[i].calls), fprintf(file, ", "), counts(file, "waited_ns", NULL, marks[i].waited_ns);
        fprintf(file, "}");
    }
    fprintf(file, "]}\n");
    if (fclose(file)) say("the counts of delayed calls cannot be written");
}
