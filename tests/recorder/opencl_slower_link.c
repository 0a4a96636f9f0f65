/* Copies between host and device, for a link that is made slower: opencl_slower_link BYTES [never].
 *
 * Lines that begin with "sees" are what the program sees of OpenCL; a slower link must not change them.  Where a copy that does not block
 * held up the host, or an unordered queue, the program would never end: it lets the copy begin only afterwards. */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *source = "kernel void ordered(global char *a) { a[0] += 1; }\n"
                            "kernel void other(global char *a) { a[0] += 1; }\n"
                            "kernel void loose(global char *a) { a[0] += 1; }\n";
static cl_context context;
static cl_command_queue first, second, unordered;
static cl_program program;
static size_t bytes;
static char *host;
static int called, called_status;

static void must(cl_int result, const char *what)
{
    if (result == CL_SUCCESS) return;
    fprintf(stderr, "%s: %d\n", what, result);
    exit(1);
}

static cl_event user_event(void)
{
    cl_int error;
    cl_event made = clCreateUserEvent(context, &error);
    must(error, "user event");
    return made;
}

static cl_mem buffer(void)
{
    cl_int error;
    cl_mem made = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &error);
    must(error, "buffer");
    return made;
}

static void run(cl_command_queue queue, const char *name, cl_mem a, cl_uint count, const cl_event *waits, cl_event *event)
{
    cl_int error;
    size_t one = 1;
    cl_kernel kernel = clCreateKernel(program, name, &error);
    must(error, "kernel"), must(clSetKernelArg(kernel, 0, sizeof a, &a), "arg");
    must(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, count, waits, event), name);
    must(clReleaseKernel(kernel), "release");
}

static void sees(const char *what, cl_event event)
{
    cl_int status = 9;
    cl_command_type type = 0;
    cl_ulong times[4] = { 0 };
    cl_int told = 0;
    must(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL), "status");
    must(clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL), "type");
    for (int i = 0; i < 4; i++) told |= clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_QUEUED + (cl_uint)i, sizeof times[i], &times[i], NULL);
    printf("sees %s status %d type %x profile %d\n", what, status, type, told);
    if (!told) printf("took %s %llu\n", what, (unsigned long long)(times[3] - times[2]));
}

static void CL_CALLBACK on_end(cl_event event, cl_int status, void *data)
{
    called_status = event == *(cl_event *)data ? status : 99;
    __atomic_fetch_add(&called, 1, __ATOMIC_SEQ_CST);
}

/* In order: what comes behind the copy in its queue, and what waits for its event in another. */
static void in_order(void)
{
    cl_mem a = buffer();
    cl_event begins = user_event(), copied, ran;
    must(clEnqueueWriteBuffer(first, a, 0, 0, bytes, host, 1, &begins, &copied), "write");
    must(clSetEventCallback(copied, CL_COMPLETE, on_end, &copied), "callback");
    run(first, "ordered", a, 0, NULL, NULL);
    run(second, "other", a, 1, &copied, &ran);
    must(clFlush(first), "flush"), must(clFlush(second), "flush");
    must(clSetUserEventStatus(begins, CL_COMPLETE), "set");
    must(clWaitForEvents(1, &copied), "wait"), must(clWaitForEvents(1, &ran), "wait"), must(clFinish(first), "finish");
    while (!__atomic_load_n(&called, __ATOMIC_SEQ_CST)) { }
    printf("sees callbacks %d status %d\n", called, called_status);
    sees("write", copied);
    must(clReleaseEvent(begins), "release"), must(clReleaseEvent(copied), "release"), must(clReleaseEvent(ran), "release");
    must(clEnqueueReadBuffer(first, a, 1, 0, bytes, host, 0, NULL, NULL), "read"); /* blocks */
    must(clEnqueueWriteBuffer(first, a, 1, 0, bytes, host, 0, NULL, &copied), "write");
    sees("blocking", copied);
    must(clReleaseEvent(copied), "release"), must(clReleaseMemObject(a), "release");
}

/* Without order: a kernel beside the copy is over before that begins. */
static void without_order(void)
{
    cl_mem a = buffer(), b = buffer();
    cl_event begins = user_event(), copied, ran, both;
    must(clEnqueueReadBuffer(unordered, a, 0, 0, bytes, host, 1, &begins, &copied), "read");
    run(unordered, "loose", b, 0, NULL, &ran);
    must(clWaitForEvents(1, &ran), "wait");
    must(clEnqueueMarkerWithWaitList(unordered, 0, NULL, &both), "marker");
    must(clSetUserEventStatus(begins, CL_COMPLETE), "set");
    must(clWaitForEvents(1, &both), "wait");
    sees("read", copied);
    must(clReleaseEvent(begins), "release"), must(clReleaseEvent(copied), "release");
    must(clReleaseEvent(ran), "release"), must(clReleaseEvent(both), "release");
    must(clReleaseMemObject(a), "release"), must(clReleaseMemObject(b), "release");
}

static void mapped(void)
{
    cl_int error;
    cl_mem a = buffer();
    cl_event there, back;
    char *place = clEnqueueMapBuffer(first, a, 0, CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0, NULL, &there, &error);
    must(error, "map"), must(clWaitForEvents(1, &there), "wait");
    memset(place, 5, bytes);
    must(clEnqueueUnmapMemObject(first, a, place, 0, NULL, &back), "unmap"), must(clWaitForEvents(1, &back), "wait");
    must(clEnqueueReadBuffer(first, a, 1, 0, bytes, host, 0, NULL, NULL), "read");
    printf("sees mapped %d %d\n", host[0], host[bytes - 1]);
    sees("map", there), sees("unmap", back);
    must(clReleaseEvent(there), "release"), must(clReleaseEvent(back), "release"), must(clReleaseMemObject(a), "release");
}

/* A copy that is never made: what it waits for fails. */
static void failing(cl_command_queue queue)
{
    cl_mem a = buffer();
    cl_event begins = user_event(), copied;
    must(clEnqueueWriteBuffer(queue, a, 0, 0, bytes, host, 1, &begins, &copied), "write");
    must(clSetUserEventStatus(begins, -7), "set");
    printf("sees wait %d\n", clWaitForEvents(1, &copied));
    sees("failed", copied);
    must(clReleaseEvent(begins), "release"), must(clReleaseEvent(copied), "release"), must(clReleaseMemObject(a), "release");
    printf("sees refused %d\n", clEnqueueWriteBuffer(first, NULL, 0, 0, bytes, host, 0, NULL, &copied));
}

int main(int argc, char **argv)
{
    cl_queue_properties with[] = { CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0 };
    cl_queue_properties loose[] = { CL_QUEUE_PROPERTIES, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0 };
    cl_platform_id platform;
    cl_device_id device;
    cl_int error;
    bytes = argc > 1 ? (size_t)atoll(argv[1]) : 4096;
    host = calloc(1, bytes);
    must(clGetPlatformIDs(1, &platform, NULL), "platform"), must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "device");
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &error), must(error, "context");
    first = clCreateCommandQueueWithProperties(context, device, with, &error), must(error, "queue");
    second = clCreateCommandQueueWithProperties(context, device, NULL, &error), must(error, "queue");
    unordered = clCreateCommandQueueWithProperties(context, device, loose, &error), must(error, "queue");
    program = clCreateProgramWithSource(context, 1, &source, NULL, &error), must(error, "program");
    must(clBuildProgram(program, 1, &device, "", NULL, NULL), "build");
    if (argc > 2) { /* a copy that is still waiting at the end, and one behind it */
        cl_mem a = buffer();
        cl_event begins = user_event();
        must(clEnqueueWriteBuffer(second, a, 0, 0, bytes, host, 1, &begins, NULL), "write");
        must(clEnqueueReadBuffer(second, a, 0, 0, bytes, host, 0, NULL, NULL), "read");
        return clFlush(second);
    }
    in_order(), without_order(), mapped(), failing(unordered), failing(second);
    clReleaseProgram(program);
    clReleaseCommandQueue(first), clReleaseCommandQueue(second), clReleaseCommandQueue(unordered), clReleaseContext(context);
    return 0;
}
