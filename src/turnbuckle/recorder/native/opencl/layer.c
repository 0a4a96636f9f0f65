/* layer.c - an OpenCL layer: records what a program asks of its devices, and when they did it; if asked, delays its calls.
 *
 * The loader (ocl-icd 2.3 or newer, Khronos' 2021.06.30 or newer) loads the library that OPENCL_LAYERS names and calls
 * clInitLayer: from then on every call of the program comes through here.
 *
 *   TB_TRACE=FILE          record into FILE; %p is the process id
 *   TB_MEMORY_MB=N         most memory for commands in flight (default 256); beyond it they are dropped and counted
 *   TB_FLUSH_MS=N          how often what is complete goes to the file (default 1000; 0: only when the buffer is full, and at the end)
 *   TB_SLACK_NS=N          delay every chosen call by N ns, spinning, at most 100 s (0: count them)
 *   TB_SLACK_CLASSES=LIST  launch,copy,memset,sync,alloc,event (default, or "boundary"), query,stream,module,other, "all"
 *   TB_SLACK_WHERE=after|before
 *   TB_JITTER_FROM_NS=N, TB_JITTER_TO_NS=N, TB_JITTER_SEED=N   delay every chosen call by a random time between the two besides
 *   TB_LINK_BANDWIDTH=N    end copies between host and device no earlier than N bytes a second would (only while it records)
 *
 * The program sees no difference: queues measure times for the layer, but say so only to a program that asked for it itself.
 * Where a setting is wrong one line says so, and the program goes on neither recorded nor delayed.  A child of fork records
 * nothing; what it executes does. */
#define _GNU_SOURCE
#include "layer.h"

#include "clock.h"
#include "link.h"
#include "settings.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define VERSION "turnbuckle-opencl 1"

static struct _cl_icd_dispatch layer;
static atomic_int ended;
enum { DEFAULT_MEMORY_MB = 256, DEFAULT_FLUSH_MS = 1000, MOST_SETTING = 1 << 20 };
static int64_t memory_mb, flush_ms;

/* ---- begin and end ---- */

static void finish(void)
{
    if (atomic_exchange(&ended, 1) || !recording) return;
    commands_stop();
    output_clock();
    output_begin();
    delay_tell_totals();
    link_tell_totals();
    output_end();
    int error = output_close();
    if (error) say("the recording is not whole: %s", strerror(error));
}

static void in_child(void)
{
    ended = 1;
    recording = 0;
    objects_in_child();
}

/* At the first queue: handlers of exit run in reverse order, and the runtime's own, put up before, must come after ours. */
static void first_queue(void)
{
    atexit(finish);
    commands_start(memory_mb << 20, flush_ms * 1000000);
}

static void refuse(const char *why)
{
    say("neither recorded nor delayed: %s", why);
    if (output_on()) {
        output_begin();
        output_fact("refused %s", why);
        output_end();
        output_close();
    }
}

/* Of the MPI layer, where that is loaded too: it asks where the buffers of messages are. */
extern void tb_places_offer(int (*place)(const void *pointer)) __attribute__((weak));

static int place(const void *pointer)
{
    struct region region;
    if (!recording || !region_at(pointer, &region)) return -1;
    return region.kind == MEMORY_UNKNOWN ? PAGEABLE : (int)region.kind; /* a mapping is memory that the host reads */
}

/* Returns whether there is anything to do. */
static int begin(void)
{
    const char *path = getenv("TB_TRACE"), *wrong = delay_settings();
    int error = path && *path ? output_open(path, VERSION) : 0;
    memory_mb = setting("TB_MEMORY_MB", DEFAULT_MEMORY_MB, MOST_SETTING, &wrong);
    flush_ms = setting("TB_FLUSH_MS", DEFAULT_FLUSH_MS, MOST_SETTING, &wrong);
    const char *wrong_link = link_settings();
    if (wrong_link) wrong = wrong_link;
    if (error) wrong = strerror(error);
    if (!wrong && link_limited() && !output_on()) wrong = "TB_LINK_BANDWIDTH needs a recording (TB_TRACE)";
    if (wrong) {
        refuse(wrong);
        return 0;
    }
    if (!output_on()) return delay_wanted();
    output_begin();
    output_fact("api opencl");
    output_fact("timebase monotonic");
    output_fact("copykind 1=HtoD 2=DtoH 3=HtoA 4=AtoH 5=AtoA 6=AtoD 7=DtoA 8=DtoD 9=HtoH");
    output_fact("memkind 0=unknown 1=pageable 2=pinned 3=device 4=array 5=managed");
    output_fact("synctype 1=event 2=stream_wait_event 3=stream");
    output_fact("memop 1=alloc 2=free");
    delay_tell_settings();
    link_tell_settings();
    output_end();
    output_clock();
    output_begin();
    output_columns();
    output_end();
    output_flush();
    pthread_atfork(NULL, NULL, in_child);
    atexit(finish);
    recording = 1;
    if (tb_places_offer) tb_places_offer(place);
    return 1;
}

/* ---- contexts and queues ---- */

static cl_context CL_API_CALL create_context(const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
                                             void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *data, cl_int *error)
{
    struct call call = call_begin("clCreateContext", STREAM);
    cl_int result = CL_SUCCESS;
    cl_context context = runtime.clCreateContext(properties, count, devices, notify, data, &result);
    if (recording && context) context_number(context, 1);
    call_done(&call, result);
    if (error) *error = result;
    return context;
}

static cl_context CL_API_CALL create_context_from_type(const cl_context_properties *properties, cl_device_type type,
                                                       void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *data,
                                                       cl_int *error)
{
    struct call call = call_begin("clCreateContextFromType", STREAM);
    cl_int result = CL_SUCCESS;
    cl_context context = runtime.clCreateContextFromType(properties, type, notify, data, &result);
    if (recording && context) context_number(context, 1);
    call_done(&call, result);
    if (error) *error = result;
    return context;
}

static cl_int CL_API_CALL release_context(cl_context context)
{
    if (recording) commands_collect();
    struct call call = call_begin("clReleaseContext", STREAM);
    return call_done(&call, runtime.clReleaseContext(context));
}

/* What the layer needs to know of a new queue. */
static void queue_made(cl_command_queue handle, cl_context context, cl_device_id device, cl_queue_properties asked, int profiled,
                       const cl_queue_properties *given, int listed)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!recording || !handle) return;
    pthread_once(&once, first_queue);
    struct device *known = device_add(device);
    struct queue *queue = known ? queue_add(handle, context, known) : NULL;
    if (!queue) return;
    queue->ordered = !(asked & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    queue->asked = !!(asked & CL_QUEUE_PROFILING_ENABLE);
    queue->profiled = profiled;
    queue->listed = listed;
    if (given) {
        size_t count = 0;
        while (given[count]) count += 2;
        queue->given_bytes = (count + 1) * sizeof *given;
        if ((queue->given = malloc(queue->given_bytes))) memcpy(queue->given, given, queue->given_bytes);
        else queue->given_bytes = 0;
    }
    clock_first_look(queue);
}

static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id device, cl_command_queue_properties properties, cl_int *error)
{
    struct call call = call_begin("clCreateCommandQueue", STREAM);
    cl_int result = CL_SUCCESS;
    cl_command_queue_properties wanted = properties | (recording ? CL_QUEUE_PROFILING_ENABLE : 0);
    cl_command_queue queue = runtime.clCreateCommandQueue(context, device, wanted, &result);
    int profiled = queue && wanted & CL_QUEUE_PROFILING_ENABLE;
    if (!queue && wanted != properties) queue = runtime.clCreateCommandQueue(context, device, properties, &result);
    call_done(&call, result);
    queue_made(queue, context, device, properties, profiled, NULL, 0);
    if (error) *error = result;
    return queue;
}

typedef cl_command_queue(CL_API_CALL *create_queue_function)(cl_context, cl_device_id, const cl_queue_properties *, cl_int *);
enum { MOST_PROPERTIES = 64 };

static cl_command_queue queue_with_properties(const char *name, create_queue_function create, cl_context context, cl_device_id device,
                                              const cl_queue_properties *properties, cl_int *error)
{
    struct call call = call_begin(name, STREAM);
    cl_queue_properties wanted[MOST_PROPERTIES + 3], asked = 0;
    size_t count = 0;
    int there = 0, profiled = 0;
    cl_int result = CL_SUCCESS;
    cl_command_queue queue = NULL;
    for (; properties && properties[count] && count < MOST_PROPERTIES; count += 2) {
        wanted[count] = properties[count], wanted[count + 1] = properties[count + 1];
        if (properties[count] != CL_QUEUE_PROPERTIES) continue;
        there = 1, asked = properties[count + 1];
        wanted[count + 1] |= CL_QUEUE_PROFILING_ENABLE;
    }
    if (!there) wanted[count] = CL_QUEUE_PROPERTIES, wanted[count + 1] = CL_QUEUE_PROFILING_ENABLE;
    wanted[count + (there ? 0 : 2)] = 0;
    int on_host = !(asked & CL_QUEUE_ON_DEVICE);
    if (recording && on_host && count < MOST_PROPERTIES) {
        queue = create(context, device, wanted, &result);
        profiled = queue != NULL;
    }
    if (!queue) queue = create(context, device, properties, &result);
    call_done(&call, result);
    if (on_host) queue_made(queue, context, device, asked, profiled, properties, 1);
    if (error) *error = result;
    return queue;
}

static cl_command_queue CL_API_CALL create_queue_with_properties(cl_context context, cl_device_id device,
                                                                 const cl_queue_properties *properties, cl_int *error)
{
    return queue_with_properties("clCreateCommandQueueWithProperties", runtime.clCreateCommandQueueWithProperties, context, device, properties,
                                 error);
}

static _Atomic(create_queue_function) create_queue_khr;

static cl_command_queue CL_API_CALL create_queue_with_properties_khr(cl_context context, cl_device_id device,
                                                                     const cl_queue_properties *properties, cl_int *error)
{
    return queue_with_properties("clCreateCommandQueueWithPropertiesKHR", create_queue_khr, context, device, properties, error);
}

static cl_int CL_API_CALL retain_queue(cl_command_queue queue)
{
    cl_int result = runtime.clRetainCommandQueue(queue);
    if (recording && result == CL_SUCCESS) queue_retained(queue);
    return result;
}

static cl_int CL_API_CALL release_queue(cl_command_queue queue)
{
    struct call call = call_begin("clReleaseCommandQueue", STREAM);
    if (recording) commands_collect();
    cl_int result = runtime.clReleaseCommandQueue(queue);
    if (recording && result == CL_SUCCESS) queue_released(queue);
    return call_done(&call, result);
}

/* Whether the program knows nothing of the queue's profiling. */
static int hidden(cl_command_queue handle, struct queue *copy)
{
    if (!recording) return 0;
    objects_begin();
    const struct queue *queue = queue_of(handle);
    int found = queue && queue->profiled && !queue->asked;
    if (found) *copy = *queue;
    objects_end();
    return found;
}

static cl_int CL_API_CALL get_queue_info(cl_command_queue handle, cl_command_queue_info what, size_t size, void *value, size_t *needed)
{
    struct queue queue;
    if (what == CL_QUEUE_PROPERTIES_ARRAY && hidden(handle, &queue) && queue.listed) {
        if (value && size < queue.given_bytes) return CL_INVALID_VALUE;
        if (value && queue.given) memcpy(value, queue.given, queue.given_bytes);
        if (needed) *needed = queue.given_bytes;
        return CL_SUCCESS;
    }
    cl_int result = runtime.clGetCommandQueueInfo(handle, what, size, value, needed);
    if (what == CL_QUEUE_PROPERTIES && result == CL_SUCCESS && value && hidden(handle, &queue))
        *(cl_command_queue_properties *)value &= ~(cl_command_queue_properties)CL_QUEUE_PROFILING_ENABLE;
    return result;
}

static cl_int CL_API_CALL set_queue_property(cl_command_queue handle, cl_command_queue_properties properties, cl_bool enable,
                                             cl_command_queue_properties *before)
{
    struct queue queue;
    int was_hidden = hidden(handle, &queue);
    /* the layer's profiling stays on */
    cl_command_queue_properties passed = enable || !recording ? properties : properties & ~(cl_command_queue_properties)CL_QUEUE_PROFILING_ENABLE;
    cl_int result = runtime.clSetCommandQueueProperty(handle, passed, enable, before);
    if (result == CL_SUCCESS && before && was_hidden) *before &= ~(cl_command_queue_properties)CL_QUEUE_PROFILING_ENABLE;
    if (result != CL_SUCCESS || !recording) return result;
    objects_begin();
    struct queue *known = queue_of(handle);
    if (known && properties & CL_QUEUE_PROFILING_ENABLE) known->asked = !!enable;
    if (known && properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) known->ordered = !enable;
    objects_end();
    return result;
}

/* ---- programs and kernels ---- */

#define MAKE(type, function, class, ...)                                                                                                        \
    struct call call = call_begin(#function, class);                                                                                            \
    cl_int result = CL_SUCCESS;                                                                                                                 \
    type made = runtime.function(__VA_ARGS__, &result);                                                                                         \
    call_done(&call, result);                                                                                                                   \
    if (error) *error = result

static cl_program CL_API_CALL program_with_source(cl_context context, cl_uint count, const char **strings, const size_t *lengths, cl_int *error)
{
    MAKE(cl_program, clCreateProgramWithSource, MODULE, context, count, strings, lengths);
    return made;
}

static cl_program CL_API_CALL program_with_binary(cl_context context, cl_uint count, const cl_device_id *devices, const size_t *lengths,
                                                  const unsigned char **binaries, cl_int *status, cl_int *error)
{
    MAKE(cl_program, clCreateProgramWithBinary, MODULE, context, count, devices, lengths, binaries, status);
    return made;
}

static cl_program CL_API_CALL program_with_il(cl_context context, const void *code, size_t length, cl_int *error)
{
    MAKE(cl_program, clCreateProgramWithIL, MODULE, context, code, length);
    return made;
}

static cl_int CL_API_CALL build_program(cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
                                        void(CL_CALLBACK *notify)(cl_program, void *), void *data)
{
    struct call call = call_begin("clBuildProgram", MODULE);
    return call_done(&call, runtime.clBuildProgram(program, count, devices, options, notify, data));
}

static cl_int CL_API_CALL compile_program(cl_program program, cl_uint count, const cl_device_id *devices, const char *options, cl_uint headers,
                                          const cl_program *programs, const char **names, void(CL_CALLBACK *notify)(cl_program, void *),
                                          void *data)
{
    struct call call = call_begin("clCompileProgram", MODULE);
    return call_done(&call, runtime.clCompileProgram(program, count, devices, options, headers, programs, names, notify, data));
}

static cl_program CL_API_CALL link_program(cl_context context, cl_uint count, const cl_device_id *devices, const char *options, cl_uint programs,
                                           const cl_program *list, void(CL_CALLBACK *notify)(cl_program, void *), void *data, cl_int *error)
{
    MAKE(cl_program, clLinkProgram, MODULE, context, count, devices, options, programs, list, notify, data);
    return made;
}

static cl_kernel CL_API_CALL create_kernel(cl_program program, const char *name, cl_int *error)
{
    MAKE(cl_kernel, clCreateKernel, MODULE, program, name);
    if (recording) kernel_named(made);
    return made;
}

static cl_kernel CL_API_CALL clone_kernel(cl_kernel kernel, cl_int *error)
{
    MAKE(cl_kernel, clCloneKernel, MODULE, kernel);
    if (recording) kernel_named(made);
    return made;
}

static cl_int CL_API_CALL create_kernels(cl_program program, cl_uint count, cl_kernel *kernels, cl_uint *made)
{
    cl_uint number = 0;
    struct call call = call_begin("clCreateKernelsInProgram", MODULE);
    cl_int result = call_done(&call, runtime.clCreateKernelsInProgram(program, count, kernels, &number));
    if (made && result == CL_SUCCESS) *made = number;
    for (cl_uint i = 0; recording && result == CL_SUCCESS && kernels && i < number; i++) kernel_named(kernels[i]);
    return result;
}

/* ---- events and waits ---- */

static cl_event CL_API_CALL create_user_event(cl_context context, cl_int *error)
{
    MAKE(cl_event, clCreateUserEvent, EVENT, context);
    if (recording && made) {
        event_add(made, &(struct event){ call.number, NONE, context_number(context, 0), NONE, NULL, 1, 0, 0, NULL });
        unseen("events that the host sets itself: what waits for them");
    }
    return made;
}

static cl_int CL_API_CALL set_user_event(cl_event event, cl_int status)
{
    struct call call = call_begin("clSetUserEventStatus", EVENT);
    return call_done(&call, runtime.clSetUserEventStatus(event, status));
}

static cl_int CL_API_CALL retain_event(cl_event event)
{
    cl_int result = runtime.clRetainEvent(event);
    if (recording && result == CL_SUCCESS) event_retained(event);
    return result;
}

static cl_int CL_API_CALL release_event(cl_event event)
{
    /* before: afterwards the handle may stand for another event */
    if (recording) event_released(event);
    return runtime.clReleaseEvent(event);
}

static cl_int CL_API_CALL get_event_info(cl_event handle, cl_event_info what, size_t size, void *value, size_t *needed)
{
    cl_event copy = recording ? event_copy(handle) : NULL;
    if (copy && what == CL_EVENT_COMMAND_TYPE) return runtime.clGetEventInfo(copy, what, size, value, needed);
    cl_int result = runtime.clGetEventInfo(handle, what, size, value, needed), status = CL_COMPLETE;
    if (copy && what == CL_EVENT_COMMAND_EXECUTION_STATUS && result == CL_SUCCESS && value && *(cl_int *)value != CL_COMPLETE
        && runtime.clGetEventInfo(copy, what, sizeof status, &status, NULL) == CL_SUCCESS)
        *(cl_int *)value = status == CL_COMPLETE && *(cl_int *)value > 0 ? CL_RUNNING : status; /* held; or an error of its own */
    if (what != CL_EVENT_REFERENCE_COUNT || result != CL_SUCCESS || !value || !recording) return result;
    objects_begin();
    const struct event *event = event_of(handle);
    if (event && event->held && *(cl_uint *)value > 1) --*(cl_uint *)value;
    objects_end();
    return result;
}

static cl_int CL_API_CALL get_event_profile(cl_event event, cl_profiling_info what, size_t size, void *value, size_t *needed)
{
    struct queue queue;
    cl_command_queue handle = NULL;
    if (recording && runtime.clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof handle, &handle, NULL) == CL_SUCCESS && handle
        && hidden(handle, &queue))
        return CL_PROFILING_INFO_NOT_AVAILABLE;
    cl_int result = runtime.clGetEventProfilingInfo(event, what, size, value, needed);
    cl_event copy = recording && result == CL_SUCCESS ? event_copy(event) : NULL; /* its own times, once its later end has come */
    return copy ? runtime.clGetEventProfilingInfo(copy, what, size, value, needed) : result;
}

static cl_int CL_API_CALL wait_for_events(cl_uint count, const cl_event *list)
{
    struct call call = call_begin("clWaitForEvents", SYNC);
    cl_int result = runtime.clWaitForEvents(count, list);
    if (recording && list) wait_for_events_tell(&call, result, count, list);
    else call_done(&call, result);
    return result;
}

static cl_int CL_API_CALL finish_queue(cl_command_queue queue)
{
    struct call call = call_begin("clFinish", SYNC);
    cl_int result = runtime.clFinish(queue);
    if (recording) wait_for_queue_tell(&call, result, queue);
    else call_done(&call, result);
    return result;
}

static cl_int CL_API_CALL flush_queue(cl_command_queue queue)
{
    struct call call = call_begin("clFlush", OTHER);
    return call_done(&call, runtime.clFlush(queue));
}

/* ---- functions that the program fetches by name ---- */

static void *extension(const char *name, void *address)
{
    if (!recording || !address || !name) return address;
    if (strcmp(name, "clCreateCommandQueueWithPropertiesKHR") == 0) {
        create_queue_khr = (create_queue_function)address;
        return (void *)create_queue_with_properties_khr;
    }
    void *own = usm_function(name, address);
    if (own) return own;
    if (strncmp(name, "clEnqueue", 9) == 0 || strstr(name, "MemAlloc") || strstr(name, "CommandBuffer")) {
        char text[160] = "what the program does through ";
        strncat(text, name, sizeof text - strlen(text) - 1);
        unseen(text);
    }
    return address;
}

static void *CL_API_CALL extension_address(const char *name) { return extension(name, runtime.clGetExtensionFunctionAddress(name)); }

static void *CL_API_CALL extension_address_of(cl_platform_id platform, const char *name)
{
    return extension(name, runtime.clGetExtensionFunctionAddressForPlatform(platform, name));
}

/* ---- the layer ---- */

static void take_over(void)
{
#define TAKE(function, own) OWN(&layer, function, own)
    TAKE(clCreateContext, create_context);
    TAKE(clCreateContextFromType, create_context_from_type);
    TAKE(clReleaseContext, release_context);
    TAKE(clCreateCommandQueue, create_queue);
    TAKE(clCreateCommandQueueWithProperties, create_queue_with_properties);
    TAKE(clRetainCommandQueue, retain_queue);
    TAKE(clReleaseCommandQueue, release_queue);
    TAKE(clGetCommandQueueInfo, get_queue_info);
    TAKE(clSetCommandQueueProperty, set_queue_property);
    TAKE(clCreateProgramWithSource, program_with_source);
    TAKE(clCreateProgramWithBinary, program_with_binary);
    TAKE(clCreateProgramWithIL, program_with_il);
    TAKE(clBuildProgram, build_program);
    TAKE(clCompileProgram, compile_program);
    TAKE(clLinkProgram, link_program);
    TAKE(clCreateKernel, create_kernel);
    TAKE(clCloneKernel, clone_kernel);
    TAKE(clCreateKernelsInProgram, create_kernels);
    TAKE(clCreateUserEvent, create_user_event);
    TAKE(clSetUserEventStatus, set_user_event);
    TAKE(clRetainEvent, retain_event);
    TAKE(clReleaseEvent, release_event);
    TAKE(clGetEventInfo, get_event_info);
    TAKE(clGetEventProfilingInfo, get_event_profile);
    TAKE(clWaitForEvents, wait_for_events);
    TAKE(clFinish, finish_queue);
    TAKE(clFlush, flush_queue);
    TAKE(clGetExtensionFunctionAddress, extension_address);
    TAKE(clGetExtensionFunctionAddressForPlatform, extension_address_of);
#undef TAKE
}

EXPORT CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t size, void *value, size_t *needed)
{
    static const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    static const char name[] = "Turnbuckle";
    const void *from = what == CL_LAYER_API_VERSION ? (const void *)&version : name;
    size_t bytes = what == CL_LAYER_API_VERSION ? sizeof version : sizeof name;
    if (what != CL_LAYER_API_VERSION && what != CL_LAYER_NAME) return CL_INVALID_VALUE;
    if (value && size < bytes) return CL_INVALID_VALUE;
    if (value) memcpy(value, from, bytes);
    if (needed) *needed = bytes;
    return CL_SUCCESS;
}

EXPORT CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint count, const cl_icd_dispatch *target, cl_uint *count_returned,
                                                   const cl_icd_dispatch **own)
{
    static atomic_int called;
    const cl_uint known = sizeof layer / sizeof(void *);
    if (!target || !count_returned || !own || atomic_exchange(&called, 1)) return CL_INVALID_VALUE;
    /* an older loader has fewer functions: what it does not have stays empty */
    memcpy(&runtime, target, (count < known ? count : known) * sizeof(void *));
    layer = runtime;
    if (begin()) {
        take_over();
        memory_take_over(&layer);
        enqueue_take_over(&layer);
    }
    *own = &layer;
    *count_returned = count < known ? count : known;
    return CL_SUCCESS;
}

/* Newer loaders ask for these two, which the headers need not know. */
EXPORT CL_API_ENTRY cl_int CL_API_CALL clInitLayerWithProperties(cl_uint count, const cl_icd_dispatch *target, cl_uint *count_returned,
                                                                 const cl_icd_dispatch **own, const cl_properties *properties);
EXPORT CL_API_ENTRY cl_int CL_API_CALL clDeinitLayer(void);

cl_int CL_API_CALL clInitLayerWithProperties(cl_uint count, const cl_icd_dispatch *target, cl_uint *count_returned, const cl_icd_dispatch **own,
                                             const cl_properties *properties)
{
    return properties && *properties ? CL_INVALID_PROPERTY : clInitLayer(count, target, count_returned, own);
}

cl_int CL_API_CALL clDeinitLayer(void)
{
    finish();
    return CL_SUCCESS;
}
