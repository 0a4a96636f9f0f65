/* Delays the calls of a CUDA program that cross from host to device, or records the program, or both.
 *
 *     CUDA_INJECTION64_PATH=/path/to/libdelay.so  SLACK_...=...  ./program
 *
 * The CUDA driver loads the library in cuInit and calls InitializeInjection.  Settings, all from the environment:
 *
 *   SLACK_DELAY_NS=N      every call of the chosen classes returns N ns later; 0 delays nothing and counts (the baseline)
 *   SLACK_CLASSES=LIST    classes to delay, with commas; default launch,copy,memset,sync,alloc,event
 *   SLACK_API=LIST        runtime (default), or runtime,driver for programs that call the driver themselves
 *   SLACK_WINDOW=1        delay and count only between slack_window(1) and slack_window(0), which the program calls
 *   SLACK_COUNTS=FILE     write there at the end what was delayed (JSON)
 *   SLACK_RECORD=FILE     write there calls, kernels, copies, memsets, waits, event records (text; see to_nsys.py)
 *
 * A call inside another call is one crossing: only the outermost of a thread is delayed, once, after it is done.  The
 * classes are those of turnbuckle.profile.classify; a test keeps the two lists equal.
 */
#define _GNU_SOURCE
#include <cupti.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* CUPTI numbers its records anew in most releases; the build names the newest that its header has. */
#ifndef KERNEL_RECORD
#define KERNEL_RECORD CUpti_ActivityKernel9
#endif
#ifndef COPY_RECORD
#define COPY_RECORD CUpti_ActivityMemcpy6
#endif
#ifndef MEMSET_RECORD
#define MEMSET_RECORD CUpti_ActivityMemset4
#endif
#ifndef EVENT_RECORD
#define EVENT_RECORD CUpti_ActivityCudaEvent2
#endif
#ifndef WAIT_RECORD
#define WAIT_RECORD CUpti_ActivitySynchronization2
#endif

#define BUFFER_BYTES ((size_t)4 << 20)
#define CALLS 4096 /* more than either domain has ids */

/* ---- classes ---- */

enum { LAUNCH, COPY, MEMSET, SYNC, ALLOC, EVENT, QUERY, STREAM, MODULE, OTHER, CLASSES };
static const char *const class_names[CLASSES] = { "launch", "copy",  "memset", "sync",   "alloc",
                                                  "event",  "query", "stream", "module", "other" };
#define BOUNDARY (1u << LAUNCH | 1u << COPY | 1u << MEMSET | 1u << SYNC | 1u << ALLOC | 1u << EVENT)

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

/* Name of the class of a call; what the tests ask. */
__attribute__((visibility("default"))) const char *slack_class(const char *name) { return class_names[class_of(name)]; }

/* ---- state ---- */

static int64_t delay_ns = -1; /* -1: calls are not watched */
static unsigned delayed_classes = BOUNDARY;
static int with_driver;
static atomic_int window_open = 1;
static const char *counts_path;
static _Atomic uint64_t calls[CLASSES], waited_ns[CLASSES];
static atomic_schar known_class[2][CALLS]; /* class + 1 */
static __thread int depth, outer_class;

static FILE *record;
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER; /* guards record and the names */
static char **names;
static size_t name_count, name_room;
static uint64_t rows, dropped;
static atomic_int finished;

static void complain(const char *what, const char *detail) { fprintf(stderr, "turnbuckle-slack: %s: %s\n", what, detail); }

static int works(CUptiResult result, const char *what)
{
    const char *text = NULL;
    if (result == CUPTI_SUCCESS) return 1;
    if (cuptiGetResultString(result, &text) != CUPTI_SUCCESS || !text) text = "unknown CUPTI error";
    complain(what, text);
    return 0;
}

/* ---- delaying ---- */

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Spins rather than sleeps: a sleep ends a scheduler's tick too late.  Returns how long it took [ns]. */
static int64_t spin(int64_t length_ns)
{
    int64_t begin = now_ns(), now = begin;
    while (now - begin < length_ns) now = now_ns();
    return now - begin;
}

static void delay(int class)
{
    if (!atomic_load_explicit(&window_open, memory_order_relaxed) || !(delayed_classes >> class & 1)) return;
    atomic_fetch_add_explicit(&calls[class], 1, memory_order_relaxed);
    if (delay_ns > 0) atomic_fetch_add_explicit(&waited_ns[class], (uint64_t)spin(delay_ns), memory_order_relaxed);
}

static int class_of_call(int driver, CUpti_CallbackId id, const char *name)
{
    int found = id < CALLS ? atomic_load_explicit(&known_class[driver][id], memory_order_relaxed) - 1 : -1;
    if (found >= 0) return found;
    found = class_of(name ? name : "");
    if (id < CALLS) atomic_store_explicit(&known_class[driver][id], (signed char)(found + 1), memory_order_relaxed);
    return found;
}

static void CUPTIAPI on_call(void *unused, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
    const CUpti_CallbackData *call = data;
    (void)unused;
    if (call->callbackSite == CUPTI_API_ENTER) {
        if (depth++ == 0) outer_class = class_of_call(domain == CUPTI_CB_DOMAIN_DRIVER_API, id, call->functionName);
    } else if (depth > 0 && --depth == 0) {
        delay(outer_class);
    }
}

/* ---- recording; everything below runs under `writing` ---- */

static size_t name_number(const char *name)
{
    if (!name) name = "?";
    for (size_t i = name_count; i-- > 0;)
        if (strcmp(names[i], name) == 0) return i;
    if (name_count == name_room) {
        name_room = name_room ? 2 * name_room : 64;
        names = realloc(names, name_room * sizeof *names);
    }
    if (!names || !(names[name_count] = strdup(name))) abort();
    fprintf(record, "N,%zu,", name_count);
    for (const char *c = name; *c; c++) fputc((unsigned char)*c < ' ' ? ' ' : *c, record);
    fputc('\n', record);
    return name_count++;
}

static size_t call_name(int driver, CUpti_CallbackId id)
{
    static int32_t known[2][CALLS]; /* number + 1 */
    const char *name = NULL;
    if (id < CALLS && known[driver][id]) return (size_t)known[driver][id] - 1;
    if (cuptiGetCallbackName(driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API, id, &name) != CUPTI_SUCCESS) name = NULL;
    size_t number = name_number(name);
    if (id < CALLS) known[driver][id] = (int32_t)number + 1;
    return number;
}

static void write_kernel(const KERNEL_RECORD *k)
{
    size_t name = name_number(k->name);
    fprintf(record, "K,%" PRIu64 ",%" PRIu64 ",%u,%u,%u,%u,%zu,%d,%d,%d,%d,%d,%d,%u,%d,%d\n", k->start, k->end, k->correlationId, k->deviceId,
            k->contextId, k->streamId, name, k->gridX, k->gridY, k->gridZ, k->blockX, k->blockY, k->blockZ,
            (unsigned)k->registersPerThread, k->staticSharedMemory, k->dynamicSharedMemory);
}

static void write_record(const CUpti_Activity *activity)
{
    rows++;
    switch (activity->kind) {
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER: {
        const CUpti_ActivityAPI *a = (const void *)activity;
        int driver = activity->kind == CUPTI_ACTIVITY_KIND_DRIVER;
        size_t name = call_name(driver, a->cbid);
        fprintf(record, "A,%" PRIu64 ",%" PRIu64 ",%u,%u,%zu,%d,%u\n", a->start, a->end, a->correlationId, a->threadId, name, driver,
                a->returnValue);
        break;
    }
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: write_kernel((const void *)activity); break;
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const COPY_RECORD *c = (const void *)activity;
        fprintf(record, "C,%" PRIu64 ",%" PRIu64 ",%u,%u,%u,%u,%" PRIu64 ",%u,%u,%u\n", c->start, c->end, c->correlationId, c->deviceId,
                c->contextId, c->streamId, c->bytes, (unsigned)c->copyKind, (unsigned)c->srcKind, (unsigned)c->dstKind);
        break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
        const MEMSET_RECORD *s = (const void *)activity;
        fprintf(record, "S,%" PRIu64 ",%" PRIu64 ",%u,%u,%u,%u,%" PRIu64 ",%u,%u\n", s->start, s->end, s->correlationId, s->deviceId,
                s->contextId, s->streamId, s->bytes, (unsigned)s->memoryKind, s->value);
        break;
    }
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: {
        const WAIT_RECORD *y = (const void *)activity;
        fprintf(record, "Y,%" PRIu64 ",%" PRIu64 ",%u,%u,%u,%u,%u,%" PRIu64 "\n", y->start, y->end, y->correlationId, (unsigned)y->type,
                y->contextId, y->streamId, y->cudaEventId, (uint64_t)y->cudaEventSyncId);
        break;
    }
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT: {
        const EVENT_RECORD *e = (const void *)activity;
        fprintf(record, "E,%u,%u,%u,%u,%u,%" PRIu64 "\n", e->correlationId, e->deviceId, e->contextId, e->streamId, e->eventId,
                (uint64_t)e->cudaEventSyncId);
        break;
    }
    case CUPTI_ACTIVITY_KIND_STREAM: {
        const CUpti_ActivityStream *r = (const void *)activity;
        fprintf(record, "R,%u,%u,%u\n", r->contextId, r->streamId, (unsigned)r->flag);
        break;
    }
    default: rows--;
    }
}

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *most)
{
    *buffer = aligned_alloc(8, BUFFER_BYTES);
    *size = *buffer ? BUFFER_BYTES : 0;
    *most = 0;
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t filled)
{
    CUpti_Activity *activity = NULL;
    size_t lost = 0;
    (void)size;
    pthread_mutex_lock(&writing);
    if (record) {
        while (filled && cuptiActivityGetNextRecord(buffer, filled, &activity) == CUPTI_SUCCESS) write_record(activity);
        if (cuptiActivityGetNumDroppedRecords(context, stream, &lost) == CUPTI_SUCCESS) dropped += lost;
    }
    pthread_mutex_unlock(&writing);
    free(buffer);
}

/* ---- begin and end ---- */

/* The program calls this around the part that counts.  Its times go into the record, on the record's own clock. */
__attribute__((visibility("default"))) void slack_window(int open)
{
    uint64_t time = 0;
    if (getenv("SLACK_WINDOW")) atomic_store(&window_open, open != 0);
    if (!record || !works(cuptiGetTimestamp(&time), "clock")) return;
    pthread_mutex_lock(&writing);
    fprintf(record, "W,%d,%" PRIu64 "\n", open != 0, time);
    pthread_mutex_unlock(&writing);
}

static void write_counts(void)
{
    FILE *file = fopen(counts_path, "w");
    uint64_t count = 0, waited = 0;
    if (!file) {
        complain("cannot write", counts_path);
        return;
    }
    fprintf(file, "{\"delay_ns\": %" PRId64 ", \"calls\": {", delay_ns);
    for (int i = 0, first = 1; i < CLASSES; i++) {
        if (!(delayed_classes >> i & 1)) continue;
        fprintf(file, "%s\"%s\": %" PRIu64, first ? "" : ", ", class_names[i], (uint64_t)calls[i]);
        count += calls[i], waited += waited_ns[i], first = 0;
    }
    fprintf(file, "}, \"delayed_calls\": %" PRIu64 ", \"waited_ns\": %" PRIu64 "}\n", count, waited);
    if (fclose(file)) complain("cannot write", counts_path);
}

static void finish(void)
{
    if (atomic_exchange(&finished, 1)) return;
    if (record) {
        works(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "flush");
        pthread_mutex_lock(&writing);
        fprintf(record, "# end %" PRIu64 " %" PRIu64 "\n", rows, dropped);
        if (ferror(record) | fclose(record)) complain("record", "not written completely");
        record = NULL;
        pthread_mutex_unlock(&writing);
    }
    if (counts_path) write_counts();
}

static int read_classes(const char *list)
{
    delayed_classes = 0;
    while (*list) {
        size_t length = strcspn(list, ",");
        int class = 0;
        while (class < CLASSES && (strlen(class_names[class]) != length || strncmp(class_names[class], list, length))) class++;
        if (class == CLASSES) return 0;
        delayed_classes |= 1u << class;
        list += length + (list[length] == ',');
    }
    return delayed_classes != 0;
}

static int read_settings(void)
{
    const char *ns = getenv("SLACK_DELAY_NS"), *list = getenv("SLACK_CLASSES"), *api = getenv("SLACK_API"), *path = getenv("SLACK_RECORD");
    char *rest = NULL;
    if (ns) {
        delay_ns = strtoll(ns, &rest, 10);
        if (rest == ns || *rest || delay_ns < 0) return complain("SLACK_DELAY_NS is not a number of ns", ns), 0;
    }
    if (list && !read_classes(list)) return complain("SLACK_CLASSES names an unknown class", list), 0;
    if (api && strcmp(api, "runtime") && strcmp(api, "runtime,driver")) return complain("SLACK_API is neither runtime nor runtime,driver", api), 0;
    with_driver = api && strcmp(api, "runtime,driver") == 0;
    atomic_store(&window_open, getenv("SLACK_WINDOW") == NULL);
    counts_path = getenv("SLACK_COUNTS");
    if (path && !(record = fopen(path, "w"))) return complain("cannot write", path), 0;
    if (record) fprintf(record, "# turnbuckle-slack 1\n# process %ld\n", (long)getpid());
    return 1;
}

static int start_delays(void)
{
    CUpti_SubscriberHandle subscriber;
    return works(cuptiSubscribe(&subscriber, on_call, NULL), "subscribe")
           && works(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API), "watch runtime calls")
           && (!with_driver || works(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API), "watch driver calls"));
}

static int start_record(void)
{
    static const CUpti_ActivityKind kinds[] = { CUPTI_ACTIVITY_KIND_STREAM,          CUPTI_ACTIVITY_KIND_RUNTIME,
                                                CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                                CUPTI_ACTIVITY_KIND_MEMSET,          CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
                                                CUPTI_ACTIVITY_KIND_CUDA_EVENT };
    if (!works(cuptiActivityRegisterCallbacks(give_buffer, take_buffer), "record")) return 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!works(cuptiActivityEnable(kinds[i]), "record this kind of activity")) return 0;
    return !with_driver || works(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_DRIVER), "record driver calls");
}

/* Called by the CUDA driver.  Nothing is written at the end when anything failed here, so that no run passes for delayed. */
__attribute__((visibility("default"))) int InitializeInjection(void)
{
    if (!read_settings()) return 0;
    if (delay_ns >= 0 && !start_delays()) return 0;
    if (record && !start_record()) return 0;
    atexit(finish);
    return 1;
}
