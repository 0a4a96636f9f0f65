/* A program whose requests to an OpenCL device are known: it counts them itself and prints them, one "word number" a line.
 *
 * Lines that begin with "sees" are what the program sees of OpenCL; recording it must not change them. */
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 65536, LAUNCHES = 7, SMALL = 4096, THREADS = 4, EACH = 50 };

static const char *source = "kernel void scale(global float *a, float f) { a[get_global_id(0)] *= f; }\n"
                            "kernel void add(global float *a, global const float *b) { a[get_global_id(0)] += b[get_global_id(0)]; }\n"
                            "kernel __attribute__((reqd_work_group_size(32, 1, 1))) void fixed(global float *a) { a[get_global_id(0)] += 1.0f; }\n";

static long long h2d_bytes, h2d, d2h_bytes, d2h, d2d_bytes, d2d, fill_bytes, fills, scale_runs, add_runs, fixed_runs, native_runs, mapped;
static cl_context context;
static cl_device_id device;
static cl_command_queue plain, timed, loose;
static cl_program program;
static cl_kernel scale, add, fixed_kernel;
static int gone;

static void must(cl_int result, const char *what)
{
    if (result == CL_SUCCESS) return;
    fprintf(stderr, "%s: %d\n", what, result);
    exit(1);
}

static void CL_CALLBACK count_gone(cl_mem memory, void *data) { (void)memory, (void)data, __atomic_fetch_add(&gone, 1, __ATOMIC_SEQ_CST); }

static cl_mem buffer(size_t bytes, cl_mem_flags flags, void *host)
{
    cl_int error;
    cl_mem made = clCreateBuffer(context, flags, bytes, host, &error);
    must(error, "clCreateBuffer");
    must(clSetMemObjectDestructorCallback(made, count_gone, NULL), "destructor");
    return made;
}

static void write_to(cl_command_queue queue, cl_mem to, int blocking, size_t bytes, const void *from, cl_event *event)
{
    must(clEnqueueWriteBuffer(queue, to, blocking, 0, bytes, from, 0, NULL, event), "write");
    h2d++, h2d_bytes += (long long)bytes;
}

static void read_from(cl_command_queue queue, cl_mem from, int blocking, size_t bytes, void *to, cl_uint count, const cl_event *waits)
{
    must(clEnqueueReadBuffer(queue, from, blocking, 0, bytes, to, count, waits, NULL), "read");
    d2h++, d2h_bytes += (long long)bytes;
}

static void run_scale(cl_command_queue queue, cl_mem a, float factor, cl_uint count, const cl_event *waits, cl_event *event)
{
    size_t global = N, local = 64;
    must(clSetKernelArg(scale, 0, sizeof a, &a), "arg");
    must(clSetKernelArg(scale, 1, sizeof factor, &factor), "arg");
    must(clEnqueueNDRangeKernel(queue, scale, 1, NULL, &global, &local, count, waits, event), "scale");
    scale_runs++;
}

static void queues(void)
{
    cl_int error;
    cl_queue_properties with[] = { CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0 };
    cl_queue_properties unordered[] = { CL_QUEUE_PROPERTIES, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0 }, array[8];
    cl_command_queue_properties bits;
    size_t size = 0;
    plain = clCreateCommandQueue(context, device, 0, &error), must(error, "queue");
    timed = clCreateCommandQueueWithProperties(context, device, with, &error), must(error, "queue");
    loose = clCreateCommandQueueWithProperties(context, device, unordered, &error), must(error, "queue");
    cl_command_queue all[] = { plain, timed, loose };
    for (int i = 0; i < 3; i++) {
        must(clGetCommandQueueInfo(all[i], CL_QUEUE_PROPERTIES, sizeof bits, &bits, NULL), "properties");
        must(clGetCommandQueueInfo(all[i], CL_QUEUE_PROPERTIES_ARRAY, sizeof array, array, &size), "array");
        printf("sees queue %d properties %llu array %zu %llu\n", i, (unsigned long long)bits, size, size > 8 ? (unsigned long long)array[1] : 0);
    }
}

static int has_profile(cl_event event)
{
    cl_ulong time = 0;
    return clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof time, &time, NULL);
}

/* In order: blocking and not, two queues that wait for each other, copies, fills, rectangles. */
static void ordered(float *host, float *back)
{
    cl_mem a = buffer(N * 4, CL_MEM_READ_WRITE, NULL), b = buffer(N * 4, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, host);
    cl_event first, second, third;
    size_t global = N, at[3] = { 0, 0, 0 }, region[3] = { 64, 8, 1 };
    float zero = 0;
    write_to(plain, a, 1, N * 4, host, NULL);
    write_to(plain, a, 0, SMALL, host, NULL);
    for (int i = 0; i < LAUNCHES; i++) run_scale(plain, a, 2, 0, NULL, i == LAUNCHES - 1 ? &first : NULL);
    must(clSetKernelArg(add, 0, sizeof a, &a), "arg"), must(clSetKernelArg(add, 1, sizeof b, &b), "arg");
    must(clEnqueueNDRangeKernel(timed, add, 1, NULL, &global, NULL, 1, &first, &second), "add"), add_runs++;
    read_from(plain, a, 1, N * 4, back, 1, &second);
    printf("sees profile %d %d\n", has_profile(first), has_profile(second));
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += back[i] != host[i] * 128 + host[i];
    printf("sees wrong %d\n", wrong);
    must(clEnqueueFillBuffer(plain, b, &zero, 4, 0, N * 4, 0, NULL, NULL), "fill"), fills++, fill_bytes += N * 4;
    must(clEnqueueCopyBuffer(plain, b, a, 0, 0, SMALL, 0, NULL, &third), "copy"), d2d++, d2d_bytes += SMALL;
    must(clEnqueueWriteBufferRect(plain, a, 1, at, at, region, 256, 0, 64, 0, host, 1, &third, NULL), "rect"), h2d++, h2d_bytes += 512;
    must(clEnqueueReadBufferRect(plain, a, 0, at, at, region, 256, 0, 64, 0, back, 0, NULL, NULL), "rect"), d2h++, d2h_bytes += 512;
    size_t local = 32;
    global = 256;
    must(clSetKernelArg(fixed_kernel, 0, sizeof a, &a), "arg");
    must(clEnqueueNDRangeKernel(plain, fixed_kernel, 1, NULL, &global, &local, 0, NULL, NULL), "fixed"), fixed_runs++;
    must(clFlush(plain), "flush"), must(clFinish(plain), "finish");
    cl_uint uses[2];
    must(clGetEventInfo(first, CL_EVENT_REFERENCE_COUNT, 4, &uses[0], NULL), "uses");
    must(clGetEventInfo(second, CL_EVENT_REFERENCE_COUNT, 4, &uses[1], NULL), "uses");
    printf("sees uses %u %u\n", uses[0], uses[1]);
    must(clReleaseEvent(first), "release"), must(clReleaseEvent(second), "release"), must(clReleaseEvent(third), "release");
    must(clReleaseMemObject(a), "release"), must(clReleaseMemObject(b), "release");
}

/* Mapped regions count as copies: to the host what is read, to the device what was written. */
static void mappings(void)
{
    cl_int error;
    cl_mem a = buffer(SMALL, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, NULL);
    char *there = clEnqueueMapBuffer(plain, a, 1, CL_MAP_WRITE_INVALIDATE_REGION, 0, SMALL, 0, NULL, NULL, &error);
    must(error, "map");
    memset(there, 7, SMALL);
    must(clEnqueueUnmapMemObject(plain, a, there, 0, NULL, NULL), "unmap"), h2d++, h2d_bytes += SMALL, mapped++;
    there = clEnqueueMapBuffer(plain, a, 1, CL_MAP_READ, 1024, 1024, 0, NULL, NULL, &error), must(error, "map");
    d2h++, d2h_bytes += 1024, mapped++;
    printf("sees mapped %d\n", there[0]);
    must(clEnqueueUnmapMemObject(plain, a, there, 0, NULL, NULL), "unmap");
    must(clEnqueueMigrateMemObjects(plain, 1, &a, CL_MIGRATE_MEM_OBJECT_HOST, 0, NULL, NULL), "migrate"), d2h++, d2h_bytes += SMALL, mapped++;
    must(clFinish(plain), "finish");
    must(clReleaseMemObject(a), "release");
}

/* No order but what events, a barrier and a marker make. */
static void unordered(float *host)
{
    cl_mem parts[4];
    cl_event written[4], ran[4], marked;
    for (int i = 0; i < 4; i++) {
        parts[i] = buffer(N * 4, CL_MEM_READ_WRITE, NULL);
        write_to(loose, parts[i], 0, N * 4, host, &written[i]);
    }
    for (int i = 0; i < 4; i++) run_scale(loose, parts[i], 3, 1, &written[i], &ran[i]);
    must(clEnqueueBarrierWithWaitList(loose, 0, NULL, NULL), "barrier");
    run_scale(loose, parts[0], 5, 0, NULL, NULL);
    must(clEnqueueMarkerWithWaitList(loose, 4, ran, &marked), "marker");
    must(clWaitForEvents(1, &marked), "wait");
    must(clFinish(loose), "finish");
    for (int i = 0; i < 4; i++) {
        must(clReleaseEvent(written[i]), "release"), must(clReleaseEvent(ran[i]), "release");
        must(clReleaseMemObject(parts[i]), "release");
    }
    must(clReleaseEvent(marked), "release");
}

static void CL_CALLBACK on_host(void *argument) { ++**(int **)argument; }

/* Whatever else makes a command: shared memory, images, native kernels, events of the host. */
static void others(void)
{
    cl_int error, count = 0, *place = &count;
    size_t at[3] = { 0, 0, 0 }, region[3] = { 16, 16, 1 };
    char *shared = clSVMAlloc(context, CL_MEM_READ_WRITE, SMALL, 0), local[1024] = { 1 };
    if (shared) {
        must(clEnqueueSVMMemcpy(plain, 1, shared, local, 1024, 0, NULL, NULL), "svm copy"), h2d++, h2d_bytes += 1024;
        must(clEnqueueSVMMap(plain, 1, CL_MAP_READ | CL_MAP_WRITE, shared, SMALL, 0, NULL, NULL), "svm map"), d2h++, d2h_bytes += SMALL, mapped++;
        printf("sees shared %d\n", shared[0]);
        must(clEnqueueSVMUnmap(plain, shared, 0, NULL, NULL), "svm unmap"), h2d++, h2d_bytes += SMALL, mapped++;
        must(clEnqueueSVMMemFill(plain, shared, "x", 1, 512, 0, NULL, NULL), "svm fill"), fills++, fill_bytes += 512;
        must(clFinish(plain), "finish");
        clSVMFree(context, shared);
    }
    cl_image_format format = { CL_RGBA, CL_UNORM_INT8 };
    cl_image_desc shape = { .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 16, .image_height = 16 };
    cl_mem image = clCreateImage(context, CL_MEM_READ_WRITE, &format, &shape, NULL, &error);
    if (error == CL_SUCCESS) {
        must(clEnqueueWriteImage(plain, image, 1, at, region, 0, 0, local, 0, NULL, NULL), "write image"), h2d++, h2d_bytes += 1024;
        must(clEnqueueReadImage(plain, image, 1, at, region, 0, 0, local, 0, NULL, NULL), "read image"), d2h++, d2h_bytes += 1024;
        must(clReleaseMemObject(image), "release");
    }
    must(clEnqueueNativeKernel(plain, on_host, &place, sizeof place, 0, NULL, NULL, 0, NULL, NULL), "native"), native_runs++;
    must(clFinish(plain), "finish");
    printf("sees native %d\n", count);
    cl_event later = clCreateUserEvent(context, &error);
    must(error, "user event");
    cl_mem a = buffer(SMALL, CL_MEM_READ_WRITE, NULL);
    must(clEnqueueFillBuffer(timed, a, "y", 1, 0, SMALL, 1, &later, NULL), "fill"), fills++, fill_bytes += SMALL;
    must(clFlush(timed), "flush"), must(clSetUserEventStatus(later, CL_COMPLETE), "set"), must(clFinish(timed), "finish");
    must(clReleaseEvent(later), "release"), must(clReleaseMemObject(a), "release");
    printf("sees refused %d\n", clEnqueueReadBuffer(plain, NULL, 1, 0, 4, local, 0, NULL, NULL));
}

static void *many(void *data)
{
    cl_mem a = buffer(SMALL, CL_MEM_READ_WRITE, NULL);
    char local[SMALL] = { 0 };
    for (int i = 0; i < EACH; i++) {
        cl_event event;
        must(clEnqueueWriteBuffer(timed, a, 0, 0, SMALL, local, 0, NULL, &event), "write");
        must(clEnqueueReadBuffer(plain, a, 1, 0, 256, local, 1, &event, NULL), "read");
        must(clRetainEvent(event), "retain"), must(clReleaseEvent(event), "release"), must(clReleaseEvent(event), "release");
    }
    must(clReleaseMemObject(a), "release");
    return data;
}

static void threads(void)
{
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, many, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    h2d += THREADS * EACH, h2d_bytes += THREADS * EACH * (long long)SMALL, d2h += THREADS * EACH, d2h_bytes += THREADS * EACH * 256LL;
}

/* A command that never runs: what it waits for fails, or is never set. */
static int never(int fails)
{
    cl_int error;
    cl_mem a = buffer(SMALL, CL_MEM_READ_WRITE, NULL);
    cl_event later = clCreateUserEvent(context, &error), event;
    must(error, "user event");
    must(clEnqueueFillBuffer(timed, a, "y", 1, 0, SMALL, 1, &later, &event), "fill");
    must(clFlush(timed), "flush");
    if (!fails) return 0;
    must(clSetUserEventStatus(later, -1), "set");
    printf("sees failed %d\n", clWaitForEvents(1, &event));
    return 0;
}

int main(int argc, char **argv)
{
    const char *last = argc > 1 ? argv[1] : "";
    cl_platform_id platform;
    cl_int error;
    static float host[N], back[N];
    for (int i = 0; i < N; i++) host[i] = (float)(i % 97);
    must(clGetPlatformIDs(1, &platform, NULL), "platform");
    must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "device");
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &error), must(error, "context");
    queues();
    if (strcmp(last, "fails") == 0 || strcmp(last, "never") == 0) return never(last[0] == 'f');
    program = clCreateProgramWithSource(context, 1, &source, NULL, &error), must(error, "program");
    must(clBuildProgram(program, 1, &device, "", NULL, NULL), "build");
    scale = clCreateKernel(program, "scale", &error), must(error, "kernel");
    add = clCreateKernel(program, "add", &error), must(error, "kernel");
    fixed_kernel = clCreateKernel(program, "fixed", &error), must(error, "kernel");
    ordered(host, back);
    mappings();
    unordered(host);
    others();
    threads();
    printf("scale %lld\nadd %lld\nfixed %lld\nnative %lld\n", scale_runs, add_runs, fixed_runs, native_runs);
    printf("h2d %lld\nh2d_bytes %lld\nd2h %lld\nd2h_bytes %lld\nd2d %lld\nd2d_bytes %lld\nfills %lld\nfill_bytes %lld\nmapped %lld\n", h2d,
           h2d_bytes, d2h, d2h_bytes, d2d, d2d_bytes, fills, fill_bytes, mapped);
    fflush(stdout);
    if (strcmp(last, "crash") == 0) {
        usleep(600000); /* thirty times the flush, for a machine that is busy */
        abort();
    }
    clReleaseKernel(scale), clReleaseKernel(add), clReleaseKernel(fixed_kernel), clReleaseProgram(program);
    clReleaseCommandQueue(plain), clReleaseCommandQueue(timed), clReleaseCommandQueue(loose);
    clReleaseContext(context);
    for (int i = 0; i < 6000 && __atomic_load_n(&gone, __ATOMIC_SEQ_CST) < 8 + THREADS; i++) usleep(10000);
    printf("sees gone %d\n", gone);
    return 0;
}
