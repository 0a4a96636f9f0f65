/* A machine without a GPU that behaves like one, exactly: driver, runtime, CUPTI and clock in one library, for the tests.
 *
 * Time is made up.  It moves by what a call costs, by what a wait waits, and by one tick at every look at the clock, so a
 * spin ends on the tick.  A device runs the work of each stream in order; streams do not slow each other down.
 *
 * STANDIN_REFUSE=1 makes CUPTI refuse, as it does where another profiler is attached; STANDIN_NO_DEVICE=1 leaves a driver without GPU.
 */
#define _GNU_SOURCE
#include <cuda_runtime.h>
#include <cupti.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TICK = 10, OWN_WORK = 100, LAUNCH = 3000, QUEUE_COPY = 2500, RECORD = 900, WAIT = 700, SYNC = 1500, SMALL = 1000, DELIVERY = 2500 };
enum { KERNEL_LEAST = 1500, NS_A_WORK = 2, COPY_LEAST = 1200, BYTES_A_NS = 20, NULL_STREAM = 7, CONTEXT = 1, THREAD = 4242, SLOT = 128 };
#define NO_ID 0xFFFFFFFFu

struct StandinStream { uint32_t id; int64_t end; };
struct StandinEvent { uint32_t id; uint64_t record; int64_t end; };

static int64_t now = 1000000000000;
static struct StandinStream null_stream = { NULL_STREAM, 0 }, *streams[16] = { &null_stream };
static int stream_count = 1;
static uint32_t correlation = 100, event_count;
static uint64_t record_count = 1;

/* ---- clock ---- */

int clock_gettime(clockid_t clock, struct timespec *time)
{
    (void)clock;
    now += TICK;
    time->tv_sec = now / 1000000000;
    time->tv_nsec = now % 1000000000;
    return 0;
}

/* ---- CUPTI ---- */

static CUpti_CallbackFunc watcher;
static int watched[3], recorded[STANDIN_KINDS];
static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static uint8_t *buffer;
static size_t room, filled;

static const char *const call_names[] = {
    "", "cudaLaunchKernel_v7000", "cudaMemcpy_v3020", "cudaMemcpyAsync_v3020", "cudaEventRecord_v3020", "cudaStreamWaitEvent_v3020",
    "cudaEventSynchronize_v3020", "cudaStreamSynchronize_v3020", "cudaDeviceSynchronize_v3020", "cudaMalloc_v3020", "cudaMallocHost_v3020",
    "cudaMemset_v3020", "cudaStreamCreateWithFlags_v5000", "cudaEventCreateWithFlags_v3020", "cudaSetDeviceFlags_v3020",
};
enum { C_LAUNCH = 1, C_COPY, C_COPY_ASYNC, C_RECORD, C_WAIT, C_SYNC_EVENT, C_SYNC_STREAM, C_SYNC_DEVICE, C_MALLOC, C_MALLOC_HOST, C_MEMSET,
       C_STREAM, C_EVENT, C_FLAGS, CALL_COUNT };

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc function, void *data)
{
    (void)data;
    if (getenv("STANDIN_REFUSE")) return CUPTI_ERROR_UNKNOWN;
    *handle = NULL;
    watcher = function;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiEnableDomain(uint32_t on, CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain)
{
    (void)handle;
    watched[domain] = (int)on;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t id, const char **name)
{
    if (!id || id >= CALL_COUNT) return CUPTI_ERROR_UNKNOWN;
    *name = domain == CUPTI_CB_DOMAIN_DRIVER_API ? "cuSomething" : call_names[id];
    return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
    *text = result == CUPTI_SUCCESS ? "CUPTI_SUCCESS" : "CUPTI_ERROR_UNKNOWN";
    return CUPTI_SUCCESS;
}
CUptiResult cuptiGetTimestamp(uint64_t *time)
{
    *time = (uint64_t)now;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc ask, CUpti_BuffersCallbackCompleteFunc done)
{
    if (getenv("STANDIN_REFUSE")) return CUPTI_ERROR_UNKNOWN;
    request = ask;
    complete = done;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
    recorded[kind] = 1;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t flags)
{
    (void)flags;
    if (buffer) complete(NULL, 0, buffer, room, filled);
    buffer = NULL;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t *from, size_t size, CUpti_Activity **record)
{
    uint8_t *next = *record ? (uint8_t *)*record + SLOT : from;
    if (next >= from + size) return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)next;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *lost)
{
    (void)context, (void)stream;
    *lost = 0;
    return CUPTI_SUCCESS;
}

static void keep(const void *record, size_t size)
{
    size_t most;
    if (!recorded[((const CUpti_Activity *)record)->kind]) return;
    if (buffer && filled + SLOT > room) cuptiActivityFlushAll(0);
    if (!buffer) request(&buffer, &room, &most), filled = 0;
    memcpy(buffer + filled, record, size);
    filled += SLOT;
}
#define KEEP(type, ...) keep(&(type){ __VA_ARGS__ }, sizeof(type))

/* ---- calls ---- */

int cuInit(unsigned flags)
{
    static int done;
    const char *path = getenv("CUDA_INJECTION64_PATH");
    (void)flags;
    if (getenv("STANDIN_NO_DEVICE")) return 100;
    if (done++ || !path) return 0;
    void *library = dlopen(path, RTLD_NOW);
    int (*start)(void) = NULL;
    if (library) *(void **)&start = dlsym(library, "InitializeInjection");
    if (start) start();
    else fprintf(stderr, "standin: %s\n", dlerror());
    return 0;
}

static void tell(CUpti_CallbackDomain domain, int call, CUpti_ApiCallbackSite site)
{
    char name[64] = "cuSomething";
    if (!watcher || !watched[domain]) return;
    if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) sscanf(call_names[call], "%63[^_]", name);
    CUpti_CallbackData data = { site, name, correlation };
    watcher(NULL, domain, (CUpti_CallbackId)call, &data);
}

static int64_t begin_call(int call)
{
    cuInit(0);
    now += OWN_WORK;
    correlation++;
    tell(CUPTI_CB_DOMAIN_RUNTIME_API, call, CUPTI_API_ENTER);
    tell(CUPTI_CB_DOMAIN_DRIVER_API, call, CUPTI_API_ENTER);
    return now;
}

static cudaError_t end_call(int call, int64_t begin, int64_t end)
{
    now = end;
    tell(CUPTI_CB_DOMAIN_DRIVER_API, call, CUPTI_API_EXIT);
    CUpti_ActivityAPI api = { CUPTI_ACTIVITY_KIND_DRIVER, (CUpti_CallbackId)call, (uint64_t)begin + 10, (uint64_t)end - 10, correlation, THREAD, 0 };
    keep(&api, sizeof api);
    api = (CUpti_ActivityAPI){ CUPTI_ACTIVITY_KIND_RUNTIME, (CUpti_CallbackId)call, (uint64_t)begin, (uint64_t)end, correlation, THREAD, 0 };
    keep(&api, sizeof api);
    tell(CUPTI_CB_DOMAIN_RUNTIME_API, call, CUPTI_API_EXIT);
    return cudaSuccess;
}

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* Puts work on a stream; returns when it begins, and moves the stream's end. */
static int64_t work_on(struct StandinStream *stream, int64_t called, int64_t length)
{
    int64_t start = later(stream->end, called + DELIVERY);
    stream->end = start + length;
    return start;
}

static void copied(struct StandinStream *stream, int64_t called, size_t size, enum cudaMemcpyKind kind)
{
    int64_t start = work_on(stream, called, COPY_LEAST + (int64_t)size / BYTES_A_NS / 10 * 10);
    int out = kind == cudaMemcpyDeviceToHost;
    KEEP(CUpti_ActivityMemcpy6, CUPTI_ACTIVITY_KIND_MEMCPY, (uint64_t)start, (uint64_t)stream->end, size, correlation, 0, CONTEXT, stream->id,
         (uint8_t)kind, out ? 3 : 2, out ? 2 : 3);
}

static void synchronised(uint32_t type, int64_t begin, int64_t end, uint32_t stream, struct StandinEvent *event)
{
    KEEP(CUpti_ActivitySynchronization2, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, type, (uint64_t)begin, (uint64_t)end, event ? event->record : NO_ID,
         correlation, CONTEXT, stream, event ? event->id : NO_ID);
}

cudaError_t cudaSetDeviceFlags(unsigned flags)
{
    (void)flags;
    int64_t begin = begin_call(C_FLAGS);
    KEEP(CUpti_ActivityStream, CUPTI_ACTIVITY_KIND_STREAM, CONTEXT, NULL_STREAM, 3);
    return end_call(C_FLAGS, begin, begin + SMALL);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    int64_t begin = begin_call(C_STREAM);
    *stream = streams[stream_count] = calloc(1, sizeof **stream);
    (*stream)->id = 12u + (uint32_t)stream_count++;
    KEEP(CUpti_ActivityStream, CUPTI_ACTIVITY_KIND_STREAM, CONTEXT, (*stream)->id, 2);
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
static cudaError_t give_memory(int call, void **memory, size_t size)
{
    int64_t begin = begin_call(call);
    *memory = calloc(1, size);
    return end_call(call, begin, begin + SMALL);
}
cudaError_t cudaMalloc(void **memory, size_t size) { return give_memory(C_MALLOC, memory, size); }
cudaError_t cudaMallocHost(void **memory, size_t size) { return give_memory(C_MALLOC_HOST, memory, size); }
cudaError_t cudaMemset(void *memory, int value, size_t size)
{
    (void)memory;
    int64_t begin = begin_call(C_MEMSET), start = work_on(&null_stream, begin, KERNEL_LEAST);
    KEEP(CUpti_ActivityMemset4, CUPTI_ACTIVITY_KIND_MEMSET, (uint64_t)start, (uint64_t)null_stream.end, size, correlation, 0, CONTEXT, NULL_STREAM,
         (uint32_t)value, 3);
    return end_call(C_MEMSET, begin, begin + LAUNCH);
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
    (void)to, (void)from;
    int64_t begin = begin_call(C_COPY);
    copied(&null_stream, begin, size, kind);
    return end_call(C_COPY, begin, null_stream.end + SYNC);
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    (void)to, (void)from;
    int64_t begin = begin_call(C_COPY_ASYNC);
    copied(stream, begin, size, kind);
    return end_call(C_COPY_ASYNC, begin, begin + QUEUE_COPY);
}
cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream)
{
    (void)kernel;
    int64_t begin = begin_call(C_LAUNCH), start = work_on(stream, begin, KERNEL_LEAST + NS_A_WORK * *(long *)arguments[1] / 10 * 10);
    KEEP(CUpti_ActivityKernel9, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, (uint64_t)start, (uint64_t)stream->end, correlation, 0, CONTEXT, stream->id,
         (int)grid.x, (int)grid.y, (int)grid.z, (int)block.x, (int)block.y, (int)block.z, 0, (int)shared, 24, "_Z5chainPfl");
    return end_call(C_LAUNCH, begin, begin + LAUNCH);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    int64_t begin = begin_call(C_RECORD);
    event->end = stream->end;
    event->record = record_count++;
    KEEP(CUpti_ActivityCudaEvent2, CUPTI_ACTIVITY_KIND_CUDA_EVENT, correlation, 0, CONTEXT, stream->id, event->id, event->record);
    return end_call(C_RECORD, begin, begin + RECORD);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    int64_t begin = begin_call(C_WAIT);
    stream->end = later(stream->end, event->end);
    synchronised(2, begin, begin + WAIT, stream->id, event);
    return end_call(C_WAIT, begin, begin + WAIT);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    int64_t begin = begin_call(C_SYNC_EVENT), end = later(begin, event->end) + SYNC;
    synchronised(1, begin, end, NO_ID, event);
    return end_call(C_SYNC_EVENT, begin, end);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    int64_t begin = begin_call(C_SYNC_STREAM), end = later(begin, stream->end) + SYNC;
    synchronised(3, begin, end, stream->id, NULL);
    return end_call(C_SYNC_STREAM, begin, end);
}
cudaError_t cudaDeviceSynchronize(void)
{
    int64_t begin = begin_call(C_SYNC_DEVICE), end = begin;
    for (int i = 0; i < stream_count; i++) end = later(end, streams[i]->end);
    synchronised(4, begin, end + SYNC, NO_ID, NULL);
    return end_call(C_SYNC_DEVICE, begin, end + SYNC);
}

/* ---- what asks for no device ---- */

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *gpu, int device)
{
    (void)device;
    *gpu = (struct cudaDeviceProp){ "Stand-in \"GPU\"", (size_t)16 << 30, 9, 0, 4, 2 };
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) { return *version = 12080, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int *version) { return *version = 12080, cudaSuccess; }
const char *cudaGetErrorString(cudaError_t error) { return error ? "an error" : "no error"; }
