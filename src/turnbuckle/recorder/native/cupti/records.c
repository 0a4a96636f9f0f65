/* records.c - see records.h.
 *
 * CUPTI renames its record structs at almost every release, and a library writes the newest form its header has.  The build
 * (turnbuckle/recorder/toolchain.py) reads these names from the header that it found and passes NAME_RECORD and NAME_NUMBER. */
#define _GNU_SOURCE
#include "records.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "output.h"

#ifndef KERNEL_RECORD
#error "build with turnbuckle record --build, which reads the names of CUPTI's records from its header"
#endif

enum { BUFFER_BYTES = 1 << 20, SPARE_BUFFERS = 16, MOST_CALLBACKS = 4096 };

static const struct { const char *word; CUpti_ActivityKind kind; } kinds[] = {
    { "api", CUPTI_ACTIVITY_KIND_RUNTIME },       { "driver", CUPTI_ACTIVITY_KIND_DRIVER },
    { "kernel", CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL }, { "memcpy", CUPTI_ACTIVITY_KIND_MEMCPY },
    { "memcpy", CUPTI_ACTIVITY_KIND_MEMCPY2 },    { "memset", CUPTI_ACTIVITY_KIND_MEMSET },
    { "sync", CUPTI_ACTIVITY_KIND_SYNCHRONIZATION }, { "event", CUPTI_ACTIVITY_KIND_CUDA_EVENT },
    { "memory", CUPTI_ACTIVITY_KIND_MEMORY2 },    { "overhead", CUPTI_ACTIVITY_KIND_OVERHEAD },
    { "stream", CUPTI_ACTIVITY_KIND_STREAM },     { "device", CUPTI_ACTIVITY_KIND_DEVICE },
    { "nvtx", CUPTI_ACTIVITY_KIND_MARKER },       { "graph", CUPTI_ACTIVITY_KIND_GRAPH_TRACE },
};
enum { KINDS = sizeof kinds / sizeof *kinds };
/* Further words: what an option of CUPTI, or a call after cuInit, switches on. */
static const char *const options[] = { "latency", "eventts", "uvm" };

static const char *wanted = "";
#if EVENT_NUMBER >= 2
static int event_times;
#endif
static uint64_t dropped, unknown, without_time, unread; /* guarded by the output's lock; `unread` in bytes */

const char *records_unknown(const char *list)
{
    static char word[64];
    for (size_t length; *list; list += length + (list[length] == ',')) {
        length = strcspn(list, ",");
        size_t kept = length < sizeof word ? length : sizeof word - 1;
        memcpy(word, list, kept);
        word[kept] = 0;
        int known = length == 0;
        for (int i = 0; i < KINDS && !known; i++) known = strcmp(kinds[i].word, word) == 0;
        for (size_t i = 0; i < sizeof options / sizeof *options && !known; i++) known = strcmp(options[i], word) == 0;
        if (!known) return word;
    }
    return NULL;
}

int records_listed(const char *list, const char *word)
{
    for (size_t length, size = strlen(word); *list; list += length + (list[length] == ',')) {
        length = strcspn(list, ",");
        if (length == size && strncmp(list, word, size) == 0) return 1;
    }
    return 0;
}

/* ---- one record ---- */

static char *(*demangle)(const char *, char *, size_t *, int *);

/* Looked for before any record comes: the dynamic linker has a lock, which a library that is being loaded holds while its first
 * functions run, and these may wait for the output. */
static void find_demangler(void)
{
    void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
    *(void **)&demangle = dlsym(library ? library : RTLD_DEFAULT, "__cxa_demangle");
}

/* A kernel's name as its program's authors wrote it, where the process has the C++ library that tells it; freed by who asked. */
static char *demangled(const char *name)
{
    int status = 0;
    return demangle && name[0] == '_' && name[1] == 'Z' ? demangle(name, NULL, NULL, &status) : NULL;
}

static int64_t known(uint64_t value) { return value ? (int64_t)value : NONE; }
static int64_t id(uint32_t value) { return value == UINT32_MAX ? NONE : (int64_t)value; }
/* A context or stream of an allocation: what stands for none is UINT32_MAX up to CUDA 12.9, 0 in later headers; both number from 1. */
static int64_t place(uint32_t value) { return value ? id(value) : NONE; }
static int64_t product(int64_t x, int64_t y, int64_t z) { return x * y * z; }

static int64_t call_name(int driver, CUpti_CallbackId call)
{
    static int64_t numbers[2][MOST_CALLBACKS]; /* number + 1 */
    const char *name = NULL;
    if (call < MOST_CALLBACKS && numbers[driver][call]) return numbers[driver][call] - 1;
    if (cuptiGetCallbackName(driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API, call, &name) != CUPTI_SUCCESS || !name)
        return NONE;
    int64_t number = output_name(name);
    if (call < MOST_CALLBACKS) numbers[driver][call] = number + 1;
    return number;
}

static void on_device(struct row *row, uint64_t start, uint64_t end, uint32_t correlation, uint32_t device, uint32_t context, uint32_t stream)
{
    row->start = (int64_t)start, row->end = (int64_t)end, row->corr = correlation;
    row->dev = device, row->ctx = context, row->stream = stream;
}

static void call(struct row *row, const CUpti_ActivityAPI *a)
{
    int driver = a->kind == CUPTI_ACTIVITY_KIND_DRIVER;
    row_begin(row, driver ? 'D' : 'A');
    row->start = (int64_t)a->start, row->end = (int64_t)a->end, row->corr = a->correlationId;
    row->tid = a->threadId, row->name = call_name(driver, a->cbid), row->ret = a->returnValue;
}

static void kernel(struct row *row, const KERNEL_RECORD *k)
{
    row_begin(row, 'K');
    on_device(row, k->start, k->end, k->correlationId, k->deviceId, k->contextId, k->streamId);
    row->name = output_name_shown(k->name, demangled), row->regs = k->registersPerThread;
    row->blocks = product(k->gridX, k->gridY, k->gridZ), row->threads = product(k->blockX, k->blockY, k->blockZ);
    row->smem = (int64_t)k->staticSharedMemory + k->dynamicSharedMemory;
    row->graph = known(k->graphId), row->node = known(k->graphNodeId), row->queued = known(k->queued), row->submitted = known(k->submitted);
}

static void copy(struct row *row, const COPY_RECORD *c)
{
    row_begin(row, 'C');
    on_device(row, c->start, c->end, c->correlationId, c->deviceId, c->contextId, c->streamId);
    row->corr2 = known(c->runtimeCorrelationId), row->bytes = (int64_t)c->bytes, row->what = c->copyKind;
    row->src = c->srcKind, row->dst = c->dstKind, row->ret = c->flags, row->graph = known(c->graphId), row->node = known(c->graphNodeId);
}

static void peer_copy(struct row *row, const PEER_RECORD *p)
{
    row_begin(row, 'P');
    on_device(row, p->start, p->end, p->correlationId, p->deviceId, p->contextId, p->streamId);
    row->bytes = (int64_t)p->bytes, row->what = p->copyKind, row->src = p->srcDeviceId, row->dst = p->dstDeviceId;
    row->graph = known(p->graphId), row->node = known(p->graphNodeId);
}

static void set_memory(struct row *row, const MEMSET_RECORD *s)
{
    row_begin(row, 'S');
    on_device(row, s->start, s->end, s->correlationId, s->deviceId, s->contextId, s->streamId);
    row->bytes = (int64_t)s->bytes, row->dst = s->memoryKind, row->ret = s->flags;
    row->graph = known(s->graphId), row->node = known(s->graphNodeId);
}

static void synchronisation(struct row *row, const WAIT_RECORD *w)
{
    row_begin(row, 'Y');
    row->start = (int64_t)w->start, row->end = (int64_t)w->end, row->corr = w->correlationId, row->what = w->type;
    row->ctx = w->contextId, row->stream = id(w->streamId), row->event = id(w->cudaEventId);
#if WAIT_NUMBER >= 2
    row->evsync = w->cudaEventSyncId == UINT32_MAX || w->cudaEventSyncId == UINT64_MAX ? NONE : known(w->cudaEventSyncId);
    row->ret = w->returnValue;
#endif
}

static void event(struct row *row, const EVENT_RECORD *e)
{
    row_begin(row, 'E');
    row->corr = e->correlationId, row->ctx = e->contextId, row->stream = id(e->streamId), row->event = e->eventId;
#if EVENT_NUMBER >= 2
    row->dev = e->deviceId, row->evsync = known(e->cudaEventSyncId);
    if (event_times) row->end = known(e->deviceTimestamp);
#endif
}

static void memory(struct row *row, const MEMORY_RECORD *m)
{
    row_begin(row, 'M');
    row->start = (int64_t)m->timestamp, row->corr = m->correlationId, row->dev = id(m->deviceId), row->ctx = place(m->contextId);
    row->stream = place(m->streamId), row->bytes = (int64_t)m->bytes, row->what = m->memoryOperationType, row->dst = m->memoryKind;
    row->address = (int64_t)m->address;
}

static void graph(struct row *row, const GRAPH_RECORD *g)
{
    row_begin(row, 'G');
    on_device(row, g->start, g->end, g->correlationId, g->deviceId, g->contextId, g->streamId);
    row->graph = g->graphId;
}

static void stream(struct row *row, const CUpti_ActivityStream *s)
{
    row_begin(row, 'R');
    row->corr = s->correlationId, row->ctx = s->contextId, row->stream = s->streamId, row->what = s->flag;
    row->dst = (int32_t)s->priority;
}

static void overhead(struct row *row, OVERHEAD_RECORD *o)
{
    row_begin(row, 'O');
    row->start = (int64_t)o->start, row->end = (int64_t)o->end, row->what = o->overheadKind;
    if (o->objectKind == CUPTI_ACTIVITY_OBJECT_THREAD) row->tid = o->objectId.pt.threadId;
#if OVERHEAD_NUMBER >= 3
    row->corr = known(o->correlationId);
    free(o->overheadData); /* the client owns it */
#endif
}

static void unified_memory(struct row *row, const UNIFIED_RECORD *u)
{
    row_begin(row, 'U');
    row->start = (int64_t)u->start, row->end = known(u->end), row->what = u->counterKind, row->bytes = (int64_t)u->value;
    row->src = id(u->srcId), row->dst = id(u->dstId), row->ret = u->flags, row->address = (int64_t)u->address;
}

static void marker(struct row *row, const MARKER_RECORD *m)
{
    row_begin(row, 'N');
    row->start = (int64_t)m->timestamp, row->corr = m->id, row->what = m->flags;
    if (m->objectKind == CUPTI_ACTIVITY_OBJECT_THREAD) row->tid = m->objectId.pt.threadId;
    row->name = output_name(m->name);
    if (m->domain && *m->domain) row->domain = output_name(m->domain);
}

static void device(const DEVICE_RECORD *d)
{
    /* CUPTI counts memory bandwidth in kB/s and clocks in kHz; the unique id of the device is left out */
    output_fact("device %u name %s", d->id, d->name ? d->name : "");
    output_fact("device %u memory_bytes %" PRIu64, d->id, d->globalMemorySize);
    output_fact("device %u memory_bandwidth %" PRIu64, d->id, d->globalMemoryBandwidth * 1000);
    output_fact("device %u clock_hz %" PRIu64, d->id, (uint64_t)d->coreClockRate * 1000);
    output_fact("device %u multiprocessors %u", d->id, d->numMultiprocessors);
    output_fact("device %u copy_engines %u", d->id, d->numMemcpyEngines);
    output_fact("device %u compute_major %u", d->id, d->computeCapabilityMajor);
    output_fact("device %u compute_minor %u", d->id, d->computeCapabilityMinor);
}

static void write_record(CUpti_Activity *activity)
{
    struct row row = { .kind = 0 };
    const void *record = activity;
    switch (activity->kind) {
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER: call(&row, record); break;
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: kernel(&row, record); break;
    case CUPTI_ACTIVITY_KIND_MEMCPY: copy(&row, record); break;
    case CUPTI_ACTIVITY_KIND_MEMCPY2: peer_copy(&row, record); break;
    case CUPTI_ACTIVITY_KIND_MEMSET: set_memory(&row, record); break;
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: synchronisation(&row, record); break;
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT: event(&row, record); break;
    case CUPTI_ACTIVITY_KIND_MEMORY2: memory(&row, record); break;
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE: graph(&row, record); break;
    case CUPTI_ACTIVITY_KIND_STREAM: stream(&row, record); break;
    case CUPTI_ACTIVITY_KIND_OVERHEAD: overhead(&row, (void *)activity); break;
    case CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER: unified_memory(&row, record); break;
    case CUPTI_ACTIVITY_KIND_MARKER: marker(&row, record); break;
    case CUPTI_ACTIVITY_KIND_DEVICE: device(record); return;
    case CUPTI_ACTIVITY_KIND_DEVICE_ATTRIBUTE: return; /* comes with the devices */
    default: unknown++; return;
    }
    if (row.start == 0) without_time++;
    output_row(&row);
}

/* ---- buffers ---- */

static pthread_mutex_t pool = PTHREAD_MUTEX_INITIALIZER; /* guards these five */
static uint8_t *spare[SPARE_BUFFERS];
static size_t spare_count, in_use, most_in_use, most_buffers;
static uint64_t refused;
static _Atomic int64_t writing_ns;

/* A program whose recorder has no buffer for it is ended by the CUPTI of releases before CUDA 12.9 (their notes say "a crash"): there
 * the bound is not held, but what goes beyond it is counted all the same. */
enum { MAY_REFUSE = CUPTI_API_VERSION >= 28 };

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *most_records)
{
    *buffer = NULL;
    pthread_mutex_lock(&pool);
    int full = in_use >= most_buffers;
    refused += (uint64_t)full;
    if (!full || !MAY_REFUSE) *buffer = spare_count ? spare[--spare_count] : aligned_alloc(64, BUFFER_BYTES);
    if (*buffer && ++in_use > most_in_use) most_in_use = in_use;
    pthread_mutex_unlock(&pool);
    *size = *buffer ? BUFFER_BYTES : 0; /* without a buffer CUPTI drops records and counts them */
    *most_records = 0;
}

static void write_records(uint8_t *buffer, size_t filled)
{
    CUpti_Activity *activity = NULL;
    uint8_t *last = buffer;
    CUptiResult result;
    while ((result = cuptiActivityGetNextRecord(buffer, filled, &activity)) == CUPTI_SUCCESS) {
        last = (uint8_t *)activity;
        write_record(activity);
    }
    if (result == CUPTI_ERROR_MAX_LIMIT_REACHED) return;
    /* a record that is not complete, or of a kind that CUPTI itself does not know: its length is not known, so what follows is lost */
    unknown++;
    unread += (uint64_t)(buffer + filled - last);
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t of_stream, uint8_t *buffer, size_t size, size_t filled)
{
    int64_t begin = clock_now();
    size_t lost = 0;
    (void)size;
    /* CUPTI may hold a lock of its own here, for which another thread waits that has ours: never ask it while the output is locked.
     * What is called below only looks at the buffer and at tables. */
    if (cuptiActivityGetNumDroppedRecords(context, of_stream, &lost) != CUPTI_SUCCESS) lost = 0;
    output_begin();
    if (buffer && filled) write_records(buffer, filled);
    dropped += lost;
    output_end();
    pthread_mutex_lock(&pool);
    if (buffer) in_use--;
    if (buffer && spare_count < SPARE_BUFFERS) spare[spare_count++] = buffer, buffer = NULL;
    pthread_mutex_unlock(&pool);
    free(buffer);
    atomic_fetch_add(&writing_ns, clock_now() - begin);
}

/* ---- what is asked for ---- */

static int works(CUptiResult result, const char *what)
{
    const char *text = NULL;
    if (result == CUPTI_SUCCESS) return 1;
    if (cuptiGetResultString(result, &text) != CUPTI_SUCCESS || !text) text = "an unknown error";
    say("%s is not recorded: %s (%d)", what, text, (int)result);
    return 0;
}

static void tell_kind(const char *word, int on)
{
    output_begin();
    output_fact("kind %s %s", word, on ? "on" : "refused");
    output_end();
}

/* CUPTI may still ask for buffers in a child of fork, and another thread may have held the lock. */
static void in_child(void) { pthread_mutex_init(&pool, NULL); }

CUptiResult records_start(const char *list, size_t most_bytes)
{
    wanted = list;
    find_demangler();
    pthread_atfork(NULL, NULL, in_child);
    most_buffers = most_bytes / BUFFER_BYTES ? most_bytes / BUFFER_BYTES : 1;
    /* the numbers that the system gives threads, so that those of several processes do not collide */
    cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
    if (records_listed(wanted, "latency")) works(cuptiActivityEnableLatencyTimestamps(1), "when kernels were queued");
#if CUPTI_API_VERSION >= 130000
    if (records_listed(wanted, "eventts")) event_times = works(cuptiActivityEnableCudaEventDeviceTimestamps(1), "the time of events");
#endif
    return cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
}

void records_switch(int on)
{
    for (int i = 0; i < KINDS; i++) {
        if (!records_listed(wanted, kinds[i].word)) continue;
        if (!on) cuptiActivityDisable(kinds[i].kind);
        else tell_kind(kinds[i].word, works(cuptiActivityEnable(kinds[i].kind), kinds[i].word));
    }
}

void records_unified_memory(void)
{
    static const CUpti_ActivityUnifiedMemoryCounterKind counters[] = {
        CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOD, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT,
    };
    int configured = 0;
    if (!records_listed(wanted, "uvm")) return;
    /* one by one: a device that cannot count one thing counts the others */
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
        CUpti_ActivityUnifiedMemoryCounterConfig setting;
        memset(&setting, 0, sizeof setting);
        setting.kind = counters[i], setting.enable = 1;
        setting.scope = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_SINGLE_DEVICE;
        configured += works(cuptiActivityConfigureUnifiedMemoryCounter(&setting, 1), "a counter of unified memory");
    }
    tell_kind("uvm", configured && works(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER), "unified memory"));
}

void records_tell(void)
{
    pthread_mutex_lock(&pool);
    size_t most = most_in_use;
    uint64_t without_room = refused;
    pthread_mutex_unlock(&pool);
    output_begin();
    output_fact("dropped %" PRIu64, dropped);
    output_fact("unknown %" PRIu64, unknown);
    if (unread) output_fact("unread bytes=%" PRIu64, unread);
    output_fact("notime %" PRIu64, without_time);
    output_fact("buffers most=%zu bytes=%d refused=%" PRIu64, most, BUFFER_BYTES, without_room);
    output_fact("cost writing_ns=%" PRId64, (int64_t)atomic_load(&writing_ns));
    output_end();
}
