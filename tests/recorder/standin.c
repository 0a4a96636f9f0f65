/* A machine without a GPU that behaves like one, exactly: driver, runtime, NVTX, CUPTI and clock in one library, for the tests.
 * Built against CUPTI's real headers, so that every record has its real layout.
 *
 * What CUPTI and driver do here was seen of real ones without a device (CUPTI 11.8 to 13.5 under driver 580): the tool is loaded before
 * cuInit looks for a device, cuptiSubscribe fails where there is none, records lie behind each other by their own lengths, one that is
 * not complete or of no known kind ends the reading of its buffer, and CUPTI's clock is CLOCK_REALTIME unless it is told another.
 *
 * Time is made up.  It moves by what a call costs, by what a wait waits, and by one tick at every look at the clock, so a spin
 * ends on the tick.  A device runs the work of each stream in order; streams do not slow each other down.
 *
 * STANDIN_REFUSE=N       cuptiSubscribe returns N, as where another profiler is attached
 * STANDIN_NO_INIT=N      cuInit returns N; STANDIN_DEVICES=N counts N devices; STANDIN_DRIVER=N is the driver's CUDA version
 * STANDIN_HOLD=N         N full buffers are held back until the next flush, as by a device that does not come to its end
 * STANDIN_NO_KIND=N      cuptiActivityEnable refuses kind N
 * STANDIN_VERSION=N      cuptiGetVersion says N
 * STANDIN_TIMELESS=1     kernels have no times where CUPTI was told a clock: the defect of CUDA 12.6 update 2 to 13.0 */
#define _GNU_SOURCE
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TICK = 10, OWN_WORK = 100, LAUNCH = 3000, QUEUE_COPY = 2500, RECORD = 900, WAIT = 700, SYNC = 1500, SMALL = 1000, DELIVERY = 2500 };
enum { KERNEL = 5000, KERNEL_LEAST = 1500, NS_A_WORK = 2, COPY_LEAST = 1200, BYTES_A_NS = 20, NULL_STREAM = 7, CONTEXT = 1, STREAMS = 64 };
#define NO_ID 0xFFFFFFFFu
#define UTC ((int64_t)1700000000000000000) /* CLOCK_REALTIME less CLOCK_MONOTONIC */

struct CUstream_st { uint32_t id; int64_t end; };
struct CUevent_st { uint32_t id; uint64_t record; int64_t end; };
struct CUgraphExec_st { int nodes; };

static _Atomic int64_t now = 1000000000000;
static struct CUstream_st null_stream = { NULL_STREAM, 0 }, *streams[STREAMS] = { &null_stream };
static int stream_count = 1;
static _Atomic uint32_t correlations = 100, event_count, marker_count;
static _Atomic uint64_t record_count = 1;
static __thread uint32_t correlation;
static pthread_mutex_t device = PTHREAD_MUTEX_INITIALIZER, delivery = PTHREAD_MUTEX_INITIALIZER;

static int setting(const char *name, int otherwise) { return getenv(name) ? atoi(getenv(name)) : otherwise; }

/* ---- clock ---- */

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int64_t at = atomic_fetch_add(&now, TICK) + TICK + (clock == CLOCK_REALTIME ? UTC : 0);
    time->tv_sec = at / 1000000000;
    time->tv_nsec = at % 1000000000;
    return 0;
}

/* ---- CUPTI ---- */

static CUpti_CallbackFunc watcher;
static _Atomic char watched[4][4096], recorded[CUPTI_ACTIVITY_KIND_COUNT];
static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static uint8_t *buffer, *held[1024];
static size_t room, filled, dropped, held_count, held_bytes[1024];
static int nvtx_loaded;
static CUpti_TimestampCallbackFunc clock_of_program;

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc function, void *data)
{
    (void)data;
    if (getenv("STANDIN_REFUSE")) return (CUptiResult)setting("STANDIN_REFUSE", 999);
    if (setting("STANDIN_NO_INIT", 0)) return CUPTI_API_VERSION < 130000 ? CUPTI_ERROR_NOT_INITIALIZED : CUPTI_ERROR_UNKNOWN;
    *handle = NULL;
    watcher = function;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiEnableCallback(uint32_t on, CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
    (void)handle;
    if (domain < 4 && id < 4096) watched[domain][id] = (char)on;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
    *text = result == CUPTI_SUCCESS ? "CUPTI_SUCCESS" : result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
            ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" : "CUPTI_ERROR_UNKNOWN";
    return CUPTI_SUCCESS;
}
CUptiResult cuptiGetTimestamp(uint64_t *time) { return *time = (uint64_t)(now + UTC), CUPTI_SUCCESS; }
CUptiResult cuptiGetVersion(uint32_t *version) { return *version = (uint32_t)setting("STANDIN_VERSION", CUPTI_API_VERSION), CUPTI_SUCCESS; }
CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) { return (void)type, CUPTI_SUCCESS; }
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc function) { return clock_of_program = function, CUPTI_SUCCESS; }
CUptiResult cuptiActivityEnableLatencyTimestamps(uint8_t on) { return (void)on, CUPTI_SUCCESS; }
CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t on) { return (void)on, CUPTI_SUCCESS; }
CUptiResult cuptiActivityConfigureUnifiedMemoryCounter(CUpti_ActivityUnifiedMemoryCounterConfig *settings, uint32_t count)
{
    return settings && count ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc ask, CUpti_BuffersCallbackCompleteFunc done)
{
    request = ask, complete = done;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
    recorded[kind] = 0;
    return CUPTI_SUCCESS;
}

static void deliver(int everything)
{
    uint8_t *full = buffer;
    buffer = NULL;
    if (!everything && (int)held_count < setting("STANDIN_HOLD", 0)) {
        held_bytes[held_count] = filled, held[held_count++] = full;
        return;
    }
    while (held_count) held_count--, complete(NULL, 0, held[held_count], held_bytes[held_count], held_bytes[held_count]);
    if (full) complete(NULL, 0, full, room, filled);
}
CUptiResult cuptiActivityFlushAll(uint32_t flags)
{
    (void)flags;
    pthread_mutex_lock(&delivery);
    deliver(1);
    pthread_mutex_unlock(&delivery);
    return CUPTI_SUCCESS;
}
/* Length of a record, and where its times are; 0: a kind that this CUPTI does not know. */
static size_t length_of(CUpti_ActivityKind kind, uint64_t times[2], int put, void *at)
{
#define TIMES(type, first, last)                                                              \
    do {                                                                                      \
        type *it = at;                                                                        \
        if (it && put && it->first) it->first = times[0];                                     \
        if (it && put && it->last) it->last = times[1];                                       \
        if (it && !put) times[0] = it->first, times[1] = it->last;                            \
        return sizeof(type);                                                                  \
    } while (0)
    switch (kind) {
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER: TIMES(CUpti_ActivityAPI, start, end);
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: TIMES(KERNEL_RECORD, start, end);
    case CUPTI_ACTIVITY_KIND_MEMCPY: TIMES(COPY_RECORD, start, end);
    case CUPTI_ACTIVITY_KIND_MEMCPY2: TIMES(PEER_RECORD, start, end);
    case CUPTI_ACTIVITY_KIND_MEMSET: TIMES(MEMSET_RECORD, start, end);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: TIMES(WAIT_RECORD, start, end);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE: TIMES(GRAPH_RECORD, start, end);
    case CUPTI_ACTIVITY_KIND_OVERHEAD: TIMES(OVERHEAD_RECORD, start, end);
    case CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER: TIMES(UNIFIED_RECORD, start, end);
    case CUPTI_ACTIVITY_KIND_MEMORY2: TIMES(MEMORY_RECORD, timestamp, timestamp);
    case CUPTI_ACTIVITY_KIND_MARKER: TIMES(MARKER_RECORD, timestamp, timestamp);
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT: return sizeof(EVENT_RECORD);
    case CUPTI_ACTIVITY_KIND_STREAM: return sizeof(CUpti_ActivityStream);
    case CUPTI_ACTIVITY_KIND_DEVICE: return sizeof(DEVICE_RECORD);
    case CUPTI_ACTIVITY_KIND_NAME: return sizeof(CUpti_ActivityName);
    default: return 0;
    }
}
CUptiResult cuptiActivityGetNextRecord(uint8_t *from, size_t size, CUpti_Activity **record)
{
    uint8_t *next = *record ? (uint8_t *)*record + length_of((*record)->kind, NULL, 0, NULL) : from;
    if (next + sizeof(CUpti_Activity) > from + size) return CUPTI_ERROR_MAX_LIMIT_REACHED;
    size_t length = length_of(((CUpti_Activity *)next)->kind, NULL, 0, NULL);
    if (!length) return CUPTI_ERROR_INVALID_KIND;
    if (next + length > from + size) return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)next;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *lost)
{
    (void)context, (void)stream;
    *lost = dropped;
    dropped = 0;
    return CUPTI_SUCCESS;
}

static void keep(const void *record, size_t size)
{
    size_t most;
    uint64_t times[2] = { 0, 0 };
    CUpti_ActivityKind kind = ((const CUpti_Activity *)record)->kind;
    if (kind && kind < CUPTI_ACTIVITY_KIND_COUNT && !recorded[kind]) return;
    pthread_mutex_lock(&delivery);
    if (buffer && filled + size > room) deliver(0);
    if (!buffer) request(&buffer, &room, &most), filled = 0;
    if (buffer) {
        memcpy(buffer + filled, record, size);
        length_of(kind, times, 0, buffer + filled);
        int timeless = clock_of_program && kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && setting("STANDIN_TIMELESS", 0);
        for (int i = 0; i < 2; i++) times[i] = timeless || !times[i] ? 0 : times[i] + (uint64_t)(clock_of_program ? 0 : UTC);
        length_of(kind, times, 1, buffer + filled);
        filled += (size + 7) / 8 * 8;
    } else dropped++;
    pthread_mutex_unlock(&delivery);
}
#define KEEP(type, ...) keep(&(type){ __VA_ARGS__ }, sizeof(type))

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
    if (getenv("STANDIN_NO_KIND") && setting("STANDIN_NO_KIND", -1) == (int)kind) return CUPTI_ERROR_NOT_SUPPORTED;
    recorded[kind] = 1;
    if (kind == CUPTI_ACTIVITY_KIND_DEVICE)
        KEEP(DEVICE_RECORD, .kind = kind, .id = 0, .name = "Stand-in \"GPU\"\n#end", .globalMemorySize = 16ull << 30, .coreClockRate = 1500000,
             .globalMemoryBandwidth = 900000000, .numMultiprocessors = 4, .numMemcpyEngines = 2, .computeCapabilityMajor = 9);
    return CUPTI_SUCCESS;
}

int InitializeInjectionNvtx2(const void *table) { return nvtx_loaded = table != NULL, 1; }
int InitializeInjectionNvtx(const void *table) { return InitializeInjectionNvtx2(table); }

/* ---- driver ---- */

static void load_tool(void)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    if (!path) return;
    void *library = dlopen(path, RTLD_NOW);
    int (*start)(void) = NULL;
    if (library) *(void **)&start = dlsym(library, "InitializeInjection");
    if (start) start();
    else fprintf(stderr, "standin: %s\n", dlerror());
    if (!setting("STANDIN_NO_INIT", 0) && watcher && watched[CUPTI_CB_DOMAIN_RESOURCE][CUPTI_CBID_RESOURCE_CU_INIT_FINISHED])
        watcher(NULL, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CU_INIT_FINISHED, NULL);
}
CUresult cuInit(unsigned flags)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)flags;
    pthread_once(&once, load_tool);
    return (CUresult)setting("STANDIN_NO_INIT", CUDA_SUCCESS);
}
CUresult cuDriverGetVersion(int *version) { return *version = setting("STANDIN_DRIVER", CUDA_VERSION), CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int *count) { return *count = setting("STANDIN_DEVICES", 1), CUDA_SUCCESS; }

/* ---- calls ---- */

#define CALLS(CALL) \
    CALL(LAUNCH_KERNEL, cudaLaunchKernel_v7000, cuLaunchKernel) CALL(MEMCPY, cudaMemcpy_v3020, cuMemcpyHtoD_v2) \
    CALL(MEMCPY_ASYNC, cudaMemcpyAsync_v3020, cuMemcpyHtoDAsync_v2) CALL(PEER, cudaMemcpyPeerAsync_v4000, cuMemcpyPeerAsync) \
    CALL(MEMSET, cudaMemset_v3020, cuMemsetD8_v2) CALL(EVENT_RECORD, cudaEventRecord_v3020, cuEventRecord) \
    CALL(WAIT_EVENT, cudaStreamWaitEvent_v3020, cuStreamWaitEvent) CALL(SYNC_EVENT, cudaEventSynchronize_v3020, cuEventSynchronize) \
    CALL(SYNC_STREAM, cudaStreamSynchronize_v3020, cuStreamSynchronize) CALL(SYNC_DEVICE, cudaDeviceSynchronize_v3020, cuCtxSynchronize) \
    CALL(MALLOC, cudaMalloc_v3020, cuMemAlloc_v2) CALL(MALLOC_HOST, cudaMallocHost_v3020, cuMemHostAlloc) \
    CALL(MALLOC_MANAGED, cudaMallocManaged_v6000, cuMemAllocManaged) CALL(FREE, cudaFree_v3020, cuMemFree_v2) \
    CALL(STREAM, cudaStreamCreateWithFlags_v5000, cuStreamCreate) CALL(EVENT, cudaEventCreateWithFlags_v3020, cuEventCreate) \
    CALL(GRAPH, cudaGraphLaunch_v10000, cuGraphLaunch) CALL(RESET, cudaDeviceReset_v3020, cuDevicePrimaryCtxReset_v2) \
    CALL(GET_DEVICE, cudaGetDevice_v3020, cuCtxGetDevice)
#define RUNTIME_ID(word, runtime, driver) CUPTI_RUNTIME_TRACE_CBID_##runtime,
#define DRIVER_ID(word, runtime, driver) CUPTI_DRIVER_TRACE_CBID_##driver,
#define RUNTIME_NAME(word, runtime, driver) #runtime,
#define DRIVER_NAME(word, runtime, driver) #driver,
#define WORD(word, runtime, driver) C_##word,
enum { CALLS(WORD) COUNT };
static const CUpti_CallbackId ids[2][COUNT] = { { CALLS(DRIVER_ID) }, { CALLS(RUNTIME_ID) } };
static const char *const names[2][COUNT] = { { CALLS(DRIVER_NAME) }, { CALLS(RUNTIME_NAME) } };

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t id, const char **name)
{
    int runtime = domain == CUPTI_CB_DOMAIN_RUNTIME_API;
    for (int call = 0; call < COUNT; call++)
        if (ids[runtime][call] == id) return *name = names[runtime][call], CUPTI_SUCCESS;
    /* every other id has a name too, as in CUPTI, up to some end */
    static char other[32];
    if (!id || id > 900) return CUPTI_ERROR_INVALID_PARAMETER;
    snprintf(other, sizeof other, "cuOther_%u", id);
    return *name = other, CUPTI_SUCCESS;
}

/* The arguments of a copy, as CUPTI hands them on; of the driver's call inside the runtime's none are told. */
static __thread const void *arguments;
struct copy_arguments { void *to; const void *from; size_t size; enum cudaMemcpyKind kind; };

static void tell(CUpti_CallbackDomain domain, int call, CUpti_ApiCallbackSite site)
{
    CUpti_CallbackId id = ids[domain == CUPTI_CB_DOMAIN_RUNTIME_API][call];
    if (!watcher || !watched[domain][id]) return;
    CUpti_CallbackData data = { .callbackSite = site, .functionName = "call", .correlationId = correlation,
                                .functionParams = domain == CUPTI_CB_DOMAIN_RUNTIME_API ? arguments : NULL };
    watcher(NULL, domain, id, &data);
}

static int64_t begin_call(int call)
{
    cuInit(0);
    now += OWN_WORK;
    correlation = atomic_fetch_add(&correlations, 1) + 1;
    tell(CUPTI_CB_DOMAIN_RUNTIME_API, call, CUPTI_API_ENTER);
    tell(CUPTI_CB_DOMAIN_DRIVER_API, call, CUPTI_API_ENTER);
    return now;
}

static cudaError_t end_call(int call, int64_t begin, int64_t end)
{
    int64_t before = now;
    while (before < end && !atomic_compare_exchange_weak(&now, &before, end)) { }
    tell(CUPTI_CB_DOMAIN_DRIVER_API, call, CUPTI_API_EXIT);
    uint32_t thread = (uint32_t)syscall(SYS_gettid);
    KEEP(CUpti_ActivityAPI, .kind = CUPTI_ACTIVITY_KIND_DRIVER, .cbid = ids[0][call], .start = (uint64_t)begin + 10, .end = (uint64_t)end - 10,
         .threadId = thread, .correlationId = correlation);
    KEEP(CUpti_ActivityAPI, .kind = CUPTI_ACTIVITY_KIND_RUNTIME, .cbid = ids[1][call], .start = (uint64_t)begin, .end = (uint64_t)end,
         .threadId = thread, .correlationId = correlation);
    tell(CUPTI_CB_DOMAIN_RUNTIME_API, call, CUPTI_API_EXIT);
    arguments = NULL;
    return cudaSuccess;
}

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* Puts work on a stream; returns when it ends, *start when it begins. */
static int64_t work_on(struct CUstream_st *stream, int64_t called, int64_t length, int64_t *start)
{
    pthread_mutex_lock(&device);
    *start = later(stream->end, called + DELIVERY);
    int64_t end = stream->end = *start + length;
    pthread_mutex_unlock(&device);
    return end;
}
static int64_t end_of(const struct CUstream_st *stream)
{
    pthread_mutex_lock(&device);
    int64_t end = stream->end;
    pthread_mutex_unlock(&device);
    return end;
}
static struct CUstream_st *of(cudaStream_t stream) { return stream ? stream : &null_stream; }

static int64_t copied(struct CUstream_st *stream, int64_t called, size_t size, enum cudaMemcpyKind kind, int host)
{
    int64_t start, end = work_on(stream, called, COPY_LEAST + (int64_t)size / BYTES_A_NS / 10 * 10, &start);
    int out = kind == cudaMemcpyDeviceToHost;
    KEEP(COPY_RECORD, .kind = CUPTI_ACTIVITY_KIND_MEMCPY, .copyKind = (uint8_t)kind, .start = (uint64_t)start, .end = (uint64_t)end,
         .bytes = size, .correlationId = correlation, .contextId = CONTEXT, .streamId = stream->id, .srcKind = (uint8_t)(out ? 3 : host),
         .dstKind = (uint8_t)(out ? host : 3), .runtimeCorrelationId = correlation);
    return end;
}

/* Columns that records have since some release. */
#if WAIT_NUMBER >= 2
#define RECORD_OF(event) , .cudaEventSyncId = event
#else
#define RECORD_OF(event)
#endif
#if EVENT_NUMBER >= 2
#define RECORDED(event) , .cudaEventSyncId = event
#else
#define RECORDED(event)
#endif
#if OVERHEAD_NUMBER >= 3
#define OVERHEAD_DATA , .overheadData = malloc(8)
#else
#define OVERHEAD_DATA
#endif

static void synchronised(CUpti_ActivitySynchronizationType type, int64_t begin, int64_t end, uint32_t stream, cudaEvent_t event)
{
    KEEP(WAIT_RECORD, .kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, .type = type, .start = (uint64_t)begin, .end = (uint64_t)end,
         .correlationId = correlation, .contextId = CONTEXT, .streamId = stream, .cudaEventId = event ? event->id : NO_ID RECORD_OF(event ? event->record : NO_ID));
}

const char *cudaGetErrorString(cudaError_t error) { return error ? "an error" : "no error"; }
cudaError_t cudaSetDeviceFlags(unsigned flags) { return (void)flags, cudaSuccess; }
cudaError_t cudaGetDevice(int *number)
{
    int64_t begin = begin_call(C_GET_DEVICE);
    *number = 0;
    return end_call(C_GET_DEVICE, begin, begin + TICK * 3);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    int64_t begin = begin_call(C_STREAM);
    *stream = calloc(1, sizeof **stream);
    pthread_mutex_lock(&device);
    (*stream)->id = 12u + (uint32_t)stream_count;
    if (stream_count < STREAMS) streams[stream_count++] = *stream;
    pthread_mutex_unlock(&device);
    KEEP(CUpti_ActivityStream, .kind = CUPTI_ACTIVITY_KIND_STREAM, .contextId = CONTEXT, .streamId = (*stream)->id, .priority = (uint32_t)-1,
         .flag = CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING, .correlationId = correlation);
    return end_call(C_STREAM, begin, begin + SMALL);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    int64_t begin = begin_call(C_EVENT);
    *event = calloc(1, sizeof **event);
    (*event)->id = ++event_count;
    return end_call(C_EVENT, begin, begin + SMALL);
}
/* What was allocated last, and where it is: what a pointer leads to. */
enum { REMEMBERED = 64 };
static struct { char *from; size_t size; CUpti_ActivityMemoryKind kind; } memories[REMEMBERED];
static atomic_uint memory_count;

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *wanted, void **into, CUdeviceptr pointer)
{
    unsigned type = 0, managed = 0;
    for (unsigned i = 0; i < REMEMBERED; i++) {
        const char *from = memories[i].from;
        if (!from || (char *)(uintptr_t)pointer < from || (char *)(uintptr_t)pointer >= from + memories[i].size) continue;
        managed = memories[i].kind == CUPTI_ACTIVITY_MEMORY_KIND_MANAGED;
        type = memories[i].kind == CUPTI_ACTIVITY_MEMORY_KIND_PINNED ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    }
    for (unsigned i = 0; i < count; i++) {
        if (wanted[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) *(unsigned *)into[i] = type;
        else if (wanted[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED) *(unsigned *)into[i] = managed;
        else return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}
static cudaError_t give_memory(int call, void **memory, size_t size, CUpti_ActivityMemoryKind kind)
{
    int64_t begin = begin_call(call);
    *memory = malloc(size ? size : 1);
    unsigned number = memory_count++ % REMEMBERED;
    memories[number].from = *memory, memories[number].size = size, memories[number].kind = kind;
    KEEP(MEMORY_RECORD, .kind = CUPTI_ACTIVITY_KIND_MEMORY2, .memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION,
         .memoryKind = kind, .correlationId = correlation, .address = (uint64_t)(uintptr_t)*memory, .bytes = size, .timestamp = (uint64_t)begin,
         .contextId = kind == CUPTI_ACTIVITY_MEMORY_KIND_PINNED ? CUPTI_INVALID_CONTEXT_ID : CONTEXT, .streamId = CUPTI_INVALID_STREAM_ID);
    return end_call(call, begin, begin + SMALL);
}
cudaError_t cudaMalloc(void **memory, size_t size) { return give_memory(C_MALLOC, memory, size, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE); }
cudaError_t cudaMallocHost(void **memory, size_t size) { return give_memory(C_MALLOC_HOST, memory, size, CUPTI_ACTIVITY_MEMORY_KIND_PINNED); }
cudaError_t cudaMallocManaged(void **memory, size_t size, unsigned flags)
{
    (void)flags;
    return give_memory(C_MALLOC_MANAGED, memory, size, CUPTI_ACTIVITY_MEMORY_KIND_MANAGED);
}
cudaError_t cudaFree(void *memory)
{
    int64_t begin = begin_call(C_FREE);
    KEEP(MEMORY_RECORD, .kind = CUPTI_ACTIVITY_KIND_MEMORY2, .memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE,
         .memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, .correlationId = correlation, .address = (uint64_t)(uintptr_t)memory,
         .timestamp = (uint64_t)begin, .contextId = CONTEXT, .streamId = CUPTI_INVALID_STREAM_ID);
    free(memory);
    return end_call(C_FREE, begin, begin + SMALL);
}
cudaError_t cudaMemset(void *memory, int value, size_t size)
{
    (void)memory;
    int64_t begin = begin_call(C_MEMSET), start, end = work_on(&null_stream, begin, COPY_LEAST, &start);
    KEEP(MEMSET_RECORD, .kind = CUPTI_ACTIVITY_KIND_MEMSET, .value = (uint32_t)value, .bytes = size, .start = (uint64_t)start, .end = (uint64_t)end,
         .contextId = CONTEXT, .streamId = NULL_STREAM, .correlationId = correlation, .memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
    return end_call(C_MEMSET, begin, begin + LAUNCH);
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
    arguments = &(struct copy_arguments){ to, from, size, kind };
    int64_t begin = begin_call(C_MEMCPY), end = copied(&null_stream, begin, size, kind, 1);
    return end_call(C_MEMCPY, begin, end + SMALL);
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    arguments = &(struct copy_arguments){ to, from, size, kind };
    int64_t begin = begin_call(C_MEMCPY_ASYNC);
    copied(of(stream), begin, size, kind, 2);
    return end_call(C_MEMCPY_ASYNC, begin, begin + QUEUE_COPY);
}
cudaError_t cudaMemcpyPeerAsync(void *to, int target, const void *from, int source, size_t size, cudaStream_t stream)
{
    (void)to, (void)from;
    int64_t begin = begin_call(C_PEER), start, end = work_on(of(stream), begin, COPY_LEAST, &start);
    KEEP(PEER_RECORD, .kind = CUPTI_ACTIVITY_KIND_MEMCPY2, .copyKind = 10, .srcKind = 3, .dstKind = 3, .bytes = size, .start = (uint64_t)start,
         .end = (uint64_t)end, .contextId = CONTEXT, .streamId = of(stream)->id, .srcDeviceId = (uint32_t)source,
         .dstDeviceId = (uint32_t)target, .correlationId = correlation);
    return end_call(C_PEER, begin, begin + QUEUE_COPY);
}

static void ran(struct CUstream_st *stream, int64_t called, int64_t length, dim3 grid, dim3 block, size_t shared, const char *name, int graph,
                int node)
{
    int64_t start, end = work_on(stream, called, length, &start);
    KEEP(KERNEL_RECORD, .kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, .start = (uint64_t)start, .end = (uint64_t)end, .contextId = CONTEXT,
         .streamId = stream->id, .gridX = (int)grid.x, .gridY = (int)grid.y, .gridZ = (int)grid.z, .blockX = (int)block.x,
         .blockY = (int)block.y, .blockZ = (int)block.z, .registersPerThread = 24, .dynamicSharedMemory = (int)shared,
         .correlationId = correlation, .name = name, .graphId = (uint32_t)graph, .graphNodeId = (uint64_t)node);
}
cudaError_t cudaLaunchKernel(const void *name, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream)
{
    /* the second argument of a kernel that has any is how much it does */
    int64_t begin = begin_call(C_LAUNCH_KERNEL), length = arguments ? KERNEL_LEAST + NS_A_WORK * *(const long *)arguments[1] / 10 * 10 : KERNEL;
    ran(of(stream), begin, length, grid, block, shared, name ? name : "_Z5chainPfl", 0, 0);
    return end_call(C_LAUNCH_KERNEL, begin, begin + LAUNCH);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    int64_t begin = begin_call(C_GRAPH), start = 0, end = 0;
    dim3 one = { 1, 1, 1 };
    if (recorded[CUPTI_ACTIVITY_KIND_GRAPH_TRACE]) {
        end = work_on(of(stream), begin, (int64_t)graph->nodes * KERNEL, &start);
        KEEP(GRAPH_RECORD, .kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE, .correlationId = correlation, .start = (uint64_t)start, .end = (uint64_t)end,
             .graphId = 3, .contextId = CONTEXT, .streamId = of(stream)->id);
    } else
        for (int node = 1; node <= graph->nodes; node++) ran(of(stream), begin, KERNEL, one, one, 0, "node", 3, node);
    return end_call(C_GRAPH, begin, begin + LAUNCH);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    int64_t begin = begin_call(C_EVENT_RECORD);
    event->end = end_of(of(stream));
    event->record = record_count++;
    KEEP(EVENT_RECORD, .kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT, .correlationId = correlation, .contextId = CONTEXT, .streamId = of(stream)->id,
         .eventId = event->id RECORDED(event->record));
    return end_call(C_EVENT_RECORD, begin, begin + RECORD);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    int64_t begin = begin_call(C_WAIT_EVENT);
    pthread_mutex_lock(&device);
    of(stream)->end = later(of(stream)->end, event->end);
    pthread_mutex_unlock(&device);
    synchronised(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT, begin, begin + WAIT, of(stream)->id, event);
    return end_call(C_WAIT_EVENT, begin, begin + WAIT);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    int64_t begin = begin_call(C_SYNC_EVENT), end = later(begin, event->end) + SYNC;
    synchronised(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE, begin, end, NO_ID, event);
    return end_call(C_SYNC_EVENT, begin, end);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    int64_t begin = begin_call(C_SYNC_STREAM), end = later(begin, end_of(of(stream))) + SYNC;
    synchronised(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE, begin, end, of(stream)->id, NULL);
    return end_call(C_SYNC_STREAM, begin, end);
}
cudaError_t cudaDeviceSynchronize(void)
{
    int64_t begin = begin_call(C_SYNC_DEVICE), end = begin;
    for (int i = 0; i < stream_count; i++) end = later(end, end_of(streams[i]));
    synchronised(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE, begin, end + SYNC, NO_ID, NULL);
    return end_call(C_SYNC_DEVICE, begin, end + SYNC);
}
cudaError_t cudaDeviceReset(void)
{
    int64_t begin = begin_call(C_RESET);
    return end_call(C_RESET, begin, begin + SMALL);
}

/* ---- what else happens on a device ---- */

void standin_migrate(int counter, uint64_t value, uint32_t flags)
{
    int64_t at = now += SMALL;
    KEEP(UNIFIED_RECORD, .kind = CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER, .counterKind = (CUpti_ActivityUnifiedMemoryCounterKind)counter,
         .value = value, .start = (uint64_t)at, .end = (uint64_t)(counter == 3 ? 0 : at + SMALL), .address = 4096, .srcId = NO_ID, .dstId = 0,
         .flags = flags);
}
void standin_overhead(int kind, int64_t length)
{
    int64_t at = now;
    KEEP(OVERHEAD_RECORD, .kind = CUPTI_ACTIVITY_KIND_OVERHEAD, .overheadKind = (CUpti_ActivityOverheadKind)kind,
         .objectKind = CUPTI_ACTIVITY_OBJECT_THREAD, .objectId = { .pt = { .threadId = (uint32_t)syscall(SYS_gettid) } }, .start = (uint64_t)at,
         .end = (uint64_t)(at + length) OVERHEAD_DATA);
    now += length;
}
void standin_strange(void)
{
    KEEP(COPY_RECORD, .kind = CUPTI_ACTIVITY_KIND_MEMCPY, .copyKind = 99, .bytes = 1, .srcKind = 200, .streamId = 9999);
    recorded[CUPTI_ACTIVITY_KIND_NAME] = 1;
    KEEP(CUpti_ActivityName, .kind = CUPTI_ACTIVITY_KIND_NAME);
    /* one that is not complete, and what lies behind it */
    KEEP(CUpti_ActivityStream, .kind = CUPTI_ACTIVITY_KIND_INVALID);
    KEEP(CUpti_ActivityStream, .kind = CUPTI_ACTIVITY_KIND_STREAM, .streamId = 4242);
}

/* ---- NVTX, as its header loads a tool ---- */

static void mark(CUpti_ActivityFlag flags, uint32_t number, const char *text, const char *domain)
{
    static int tried;
    const char *path = getenv("NVTX_INJECTION64_PATH");
    if (!tried++ && path) {
        int (*start)(const void *) = NULL;
        void *library = dlopen(path, RTLD_NOW);
        if (library) *(void **)&start = dlsym(library, "InitializeInjectionNvtx2");
        if (start) start(&tried);
    }
    now += TICK;
    if (nvtx_loaded)
        KEEP(MARKER_RECORD, .kind = CUPTI_ACTIVITY_KIND_MARKER, .flags = flags, .timestamp = (uint64_t)now, .id = number,
             .objectKind = CUPTI_ACTIVITY_OBJECT_THREAD, .objectId = { .pt = { .threadId = (uint32_t)syscall(SYS_gettid) } }, .name = text,
             .domain = domain);
}
uint32_t standin_range_begin(const char *text, const char *domain)
{
    uint32_t number = ++marker_count;
    mark(CUPTI_ACTIVITY_FLAG_MARKER_START, number, text, domain);
    return number;
}
void standin_range_end(uint32_t number) { mark(CUPTI_ACTIVITY_FLAG_MARKER_END, number, NULL, NULL); }
void standin_mark(const char *text) { mark(CUPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS, ++marker_count, text, NULL); }
