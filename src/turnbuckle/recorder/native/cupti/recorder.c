/* recorder.c - a CUPTI injection library: records a CUDA program and, if asked, delays its calls that cross to the device.
 *
 * The driver loads the library named by CUDA_INJECTION64_PATH in cuInit and calls InitializeInjection.  CUPTI sees the calls of
 * every CUDA runtime, linked dynamically or statically, and the driver's own, because both report through the driver.  NVTX loads
 * the library named by NVTX_INJECTION64_PATH, which may be this one too: it hands NVTX on to CUPTI.
 *
 *   TB_TRACE=FILE        record into FILE; %p is the process id
 *   TB_KINDS=LIST        api,driver,kernel,memcpy,memset,sync,event,memory,overhead,stream,device,nvtx (default); and
 *                        graph    CUDA graphs as one record each instead of one a node
 *                        uvm      unified memory: migrations and page faults
 *                        latency  when kernels were queued and submitted
 *                        eventts  device time of events (CUDA 13)
 *   TB_MEMORY_MB=N       most memory for records on their way (default 256); beyond it records are dropped and counted
 *   TB_FLUSH_MS=N        how often what is complete goes to the file (default 1000; 0: only when buffers are full, and at the end)
 *   TB_CLOCK=monotonic|cupti  whose clock stamps the records; left out: CLOCK_MONOTONIC where CUPTI takes it without harm
 *   TB_WINDOW=1          record only between tb_mark("loop_begin") and tb_mark("loop_end")
 *   TB_SLACK_NS=N        delay every chosen call by N ns, spinning, at most 100 s (0: count them)
 *   TB_SLACK_CLASSES=LIST  launch,copy,memset,sync,alloc,event (default, or "boundary"), query,stream,module,other, "all"
 *   TB_SLACK_WHERE=after|before
 *   TB_JITTER_FROM_NS=N, TB_JITTER_TO_NS=N, TB_JITTER_SEED=N   delay every chosen call by a random time between the two besides
 *   TB_LINK_BANDWIDTH=N  let copies that block return no earlier than N bytes a second would (only while it records)
 *   TB_SLACK_STATS=FILE  counts of delayed calls as JSON; %p is the process id, and a file that is there already is not touched
 *
 * Where a setting is wrong or CUPTI refuses, one line says so, the file holds the fact "#refused", and the program goes on
 * neither recorded nor delayed.  A child of fork records nothing (CUDA does not work there either); what it executes does. */
#define _GNU_SOURCE
#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "copies.h"
#include "delays.h"
#include "link.h"
#include "output.h"
#include "records.h"
#include "settings.h"

#define EXPORT __attribute__((visibility("default")))
#define VERSION "turnbuckle-cupti 1"
enum { DEFAULT_MEMORY_MB = 256, DEFAULT_FLUSH_MS = 1000, MOST_SETTING = 1 << 20, NOT_CALLED = -1, WRONG_SETTINGS = -2, CLOCK_LOOKS = 15 };
#define LONGEST_START_NS ((int64_t)10000000000)

static int status = NOT_CALLED; /* 0: at work or nothing asked for; else a CUPTI error */
static atomic_int finished, pending, started; /* `started`: cuInit has come to its end; `pending`: delays wait */
static int recording, window, own_clock;
static int64_t flush_ms = DEFAULT_FLUSH_MS;
static pthread_t flusher;
static int flushing;
static int64_t flusher_began;

/* ---- clocks ---- */

static uint64_t CUPTIAPI timestamp(void) { return (uint64_t)clock_now(); }

/* Whether CUPTI of `version` may be told to use our clock.  From CUDA 12.6 update 2 (24) to 13.0 it may then give kernels the time 0, say
 * NVIDIA's notes to 13.1.  Its own clock is CLOCK_REALTIME, and readers move it by what "#clock" says. */
EXPORT int tb_own_clock_is_safe(uint32_t version)
{
    enum { BROKEN = 24, MENDED = 130100 };
    return version < BROKEN || version >= MENDED;
}

/* The fact "#clock M C R W": at CLOCK_MONOTONIC M, CUPTI's clock was M+C and CLOCK_REALTIME M+R, each within W.
 * Looked at before the output is locked: CUPTI may hold a lock of its own while it waits for ours. */
static void tell_clock(void)
{
    int64_t at, width, narrowest = INT64_MAX, to_cupti = 0, to_utc = clock_to_utc(&at, &width);
    for (int i = 0; i < CLOCK_LOOKS; i++) {
        uint64_t theirs = 0;
        int64_t begin = clock_now();
        if (cuptiGetTimestamp(&theirs) != CUPTI_SUCCESS) return;
        int64_t end = clock_now();
        if (end - begin >= narrowest) continue;
        narrowest = end - begin;
        to_cupti = (int64_t)theirs - begin - narrowest / 2;
    }
    if (narrowest / 2 + 1 > width) width = narrowest / 2 + 1;
    output_begin();
    output_fact("clock %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64, at, to_cupti, to_utc, width);
    output_end();
}

/* ---- at work ---- */

static void write_down(void)
{
    output_begin();
    delays_write();
    output_end();
    output_flush();
}

/* What the flusher sleeps on; the program's descriptors and conditions are its own. */
static _Atomic uint32_t bell;

static void ring(void)
{
    atomic_fetch_add(&bell, 1);
    syscall(SYS_futex, &bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void wake_flusher(void)
{
    if (recording && !atomic_exchange(&pending, 1)) ring();
}

/* Hands what is complete to the file from time to time, so that little is lost where the program is killed; delays also when there
 * are many of them. */
static void *flush_often(void *unused)
{
    const struct timespec pause = { flush_ms / 1000, flush_ms % 1000 * 1000000 };
    while (!atomic_load(&finished)) {
        uint32_t heard = atomic_load(&bell);
        if (!atomic_load(&pending) && !atomic_load(&finished))
            syscall(SYS_futex, &bell, FUTEX_WAIT_PRIVATE, heard, flush_ms > 0 ? &pause : NULL, NULL, 0);
        if (atomic_load(&finished)) break;
        int many = atomic_exchange(&pending, 0);
        /* the driver may hold its locks in cuInit; one that does not tell its end is waited for no longer than this */
        if (!many && (atomic_load(&started) || clock_now() - flusher_began > LONGEST_START_NS)) cuptiActivityFlushAll(0);
        write_down();
    }
    return unused;
}

static void start_flushing(void)
{
    sigset_t all, old;
    if (flush_ms <= 0 && !delays_wanted()) return;
    flusher_began = clock_now();
    /* the program's signals are for its own threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    flushing = pthread_create(&flusher, NULL, flush_often, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static int ends_context(int driver, CUpti_CallbackId id)
{
    if (!driver) return id == CUPTI_RUNTIME_TRACE_CBID_cudaDeviceReset_v3020;
    return id == CUPTI_DRIVER_TRACE_CBID_cuCtxDestroy || id == CUPTI_DRIVER_TRACE_CBID_cuCtxDestroy_v2
           || id == CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxReset || id == CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxReset_v2
           || id == CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxRelease || id == CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxRelease_v2;
}

static void CUPTIAPI on_call(void *unused, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
    (void)unused;
    if (atomic_load_explicit(&finished, memory_order_relaxed)) return;
    if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
        if (id != CUPTI_CBID_RESOURCE_CU_INIT_FINISHED) return;
        if (recording) records_unified_memory();
        atomic_store(&started, 1);
        return;
    }
    if (domain != CUPTI_CB_DOMAIN_RUNTIME_API && domain != CUPTI_CB_DOMAIN_DRIVER_API) return;
    int driver = domain == CUPTI_CB_DOMAIN_DRIVER_API;
    const CUpti_CallbackData *call = data;
    /* records of a context end with it; a forced flush would hand over those of kernels that still run, without their times */
    if (recording && call->callbackSite == CUPTI_API_ENTER && ends_context(driver, id)) cuptiActivityFlushAll(0);
    if (call->callbackSite == CUPTI_API_EXIT) copies_call(driver, id, call);
    delays_call(driver, id, call);
    if (call->callbackSite == CUPTI_API_ENTER) copies_call(driver, id, call); /* a delay before the call is not the copy's */
}

static void watch_ends(CUpti_SubscriberHandle subscriber)
{
    static const CUpti_CallbackId ends[] = { CUPTI_DRIVER_TRACE_CBID_cuCtxDestroy, CUPTI_DRIVER_TRACE_CBID_cuCtxDestroy_v2,
                                             CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxReset, CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxReset_v2,
                                             CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxRelease, CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxRelease_v2 };
    cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceReset_v3020);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, ends[i]);
    cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CU_INIT_FINISHED);
}

/* ---- begin and end ---- */

static void finish(void)
{
    if (atomic_exchange(&finished, 1)) return;
    if (flushing) {
        ring();
        pthread_join(flusher, NULL);
    }
    if (recording) {
        cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
        tell_clock();
        records_tell();
        output_begin();
        delays_write();
        delays_tell_totals();
        link_tell_totals();
        output_end();
        int error = output_close();
        if (error) say("the recording is not whole: %s", strerror(error));
    }
    delays_statistics();
}

/* The child's copy of CUPTI and of this library is not at work, whatever its memory says. */
static void in_child(void) { atomic_store(&finished, 1), recording = flushing = 0; }

static int refuse(int code, const char *why)
{
    say("neither recorded nor delayed: %s", why);
    status = code;
    if (recording) {
        output_begin();
        output_fact("refused %d %s", code, why);
        output_end();
        output_close();
    }
    recording = 0;
    return 1; /* the program itself goes on */
}

static int refused_by_cupti(CUptiResult result)
{
    const char *text = NULL;
    if (cuptiGetResultString(result, &text) != CUPTI_SUCCESS || !text) text = "an unknown error of CUPTI";
    return refuse((int)result, text);
}

/* A program may bring a CUPTI of its own, which is then the one at work.  Records are read by the header's layout. */
static int other_version(void)
{
    uint32_t version = 0;
    enum { BY_RELEASE = 130000, PATCHES = 100 }; /* since CUDA 13 the number is xxyyzz, zz a patch */
    if (cuptiGetVersion(&version) != CUPTI_SUCCESS) return 1;
    return CUPTI_API_VERSION < BY_RELEASE ? version != CUPTI_API_VERSION : version / PATCHES != CUPTI_API_VERSION / PATCHES;
}

static void first_facts(const char *kinds)
{
    uint32_t version = 0;
    cuptiGetVersion(&version);
    output_begin();
    output_fact("cupti_header %d", CUPTI_API_VERSION);
    output_fact("cupti_library %u", version);
    output_fact("kinds %s", kinds);
    output_fact("timebase %s", own_clock ? "monotonic" : "cupti");
    output_fact("copykind 1=HtoD 2=DtoH 3=HtoA 4=AtoH 5=AtoA 6=AtoD 7=DtoA 8=DtoD 9=HtoH 10=PtoP");
    output_fact("memkind 0=unknown 1=pageable 2=pinned 3=device 4=array 5=managed 6=device_static 7=managed_static");
    output_fact("synctype 1=event 2=stream_wait_event 3=stream 4=context");
    output_fact("memop 1=alloc 2=free");
    delays_tell_settings();
    link_tell_settings();
    output_end();
    tell_clock();
    output_begin();
    output_columns();
    output_end();
}

static CUptiResult start_recording(const char *kinds, size_t most_bytes)
{
    const char *clock = getenv("TB_CLOCK");
    uint32_t version = 0;
    cuptiGetVersion(&version);
    own_clock = clock && *clock ? strcmp(clock, "monotonic") == 0 : tb_own_clock_is_safe(version);
    if (own_clock) own_clock = cuptiActivityRegisterTimestampCallback(timestamp) == CUPTI_SUCCESS;
    CUptiResult result = records_start(kinds, most_bytes);
    if (result != CUPTI_SUCCESS) return result;
    first_facts(kinds);
    if (!window) records_switch(1);
    start_flushing();
    output_flush();
    return CUPTI_SUCCESS;
}

EXPORT int InitializeInjection(void)
{
    const char *path = getenv("TB_TRACE"), *kinds = getenv("TB_KINDS"), *only = getenv("TB_WINDOW"), *clock = getenv("TB_CLOCK");
    const char *wrong = NULL;
    CUpti_SubscriberHandle subscriber;
    if (status != NOT_CALLED) return 1;
    if (path && *path) {
        int error = output_open(path, VERSION);
        if (error) return refuse(WRONG_SETTINGS, strerror(error));
        recording = 1;
    }
    if (!kinds || !*kinds) kinds = RECORDS_DEFAULT;
    window = only && *only == '1';
    int64_t memory_mb = setting("TB_MEMORY_MB", DEFAULT_MEMORY_MB, MOST_SETTING, &wrong);
    flush_ms = setting("TB_FLUSH_MS", DEFAULT_FLUSH_MS, MOST_SETTING, &wrong);
    if (!wrong) wrong = delays_settings();
    if (!wrong) wrong = link_settings();
    if (!wrong && link_limited() && !recording) wrong = "TB_LINK_BANDWIDTH needs a recording (TB_TRACE)";
    if (!wrong && clock && *clock && strcmp(clock, "monotonic") && strcmp(clock, "cupti")) wrong = "TB_CLOCK is neither monotonic nor cupti";
    if (!wrong && records_unknown(kinds)) wrong = "TB_KINDS names an unknown kind of records";
    if (wrong) return refuse(WRONG_SETTINGS, wrong);
    if (!recording && !delays_wanted()) return status = 0, 1; /* nothing is asked for */
    if (other_version()) return refuse(WRONG_SETTINGS, "the program loads another version of CUPTI than the recorder was built for");

    CUptiResult result = cuptiSubscribe(&subscriber, on_call, NULL);
    if (result == CUPTI_SUCCESS && delays_wanted()) result = delays_start(subscriber, wake_flusher);
    if (result == CUPTI_SUCCESS && link_limited()) result = copies_start(subscriber);
    if (result == CUPTI_SUCCESS && recording) result = start_recording(kinds, (size_t)memory_mb << 20);
    if (result != CUPTI_SUCCESS) {
        atomic_store(&finished, 1);
        return refused_by_cupti(result);
    }
    if (recording) watch_ends(subscriber);
    status = 0;
    pthread_atfork(NULL, NULL, in_child);
    atexit(finish);
    return 1;
}

/* ---- NVTX: on to CUPTI ---- */

static int hand_on(const char *name, const void *table)
{
    int (*theirs)(const void *) = NULL;
    *(void **)&theirs = dlsym(RTLD_NEXT, name);
    return theirs ? theirs(table) : 0;
}
EXPORT int InitializeInjectionNvtx(const void *table) { return hand_on("InitializeInjectionNvtx", table); }
EXPORT int InitializeInjectionNvtx2(const void *table) { return hand_on("InitializeInjectionNvtx2", table); }

/* ---- what a program may call; it finds the library by its path and never needs it ---- */

EXPORT int tb_status(void) { return status; }
EXPORT int tb_set_slack(int64_t ns) { return status == 0 && delays_set(ns); }
EXPORT const char *tb_classify(const char *name) { return delays_class(name); }

/* A mark in the recording; with TB_WINDOW, loop_begin and loop_end open and close it. */
EXPORT void tb_mark(const char *label)
{
    int64_t at = clock_now();
    if (status != 0 || !label || atomic_load(&finished)) return;
    int opens = window && strcmp(label, "loop_begin") == 0, closes = window && strcmp(label, "loop_end") == 0;
    if (recording && closes) cuptiActivityFlushAll(0), records_switch(0);
    if (recording) tell_clock();
    output_begin();
    delays_mark(label, at);
    if (recording) output_fact("mark %" PRId64 " %s", at, label);
    output_end();
    if (recording && opens) records_switch(1);
}
