/* pairs.c - OpenCL programs with and without one change: pairs KIND ITERATIONS
 *
 *   copies     sixteen blocking writes of 16 KiB, a kernel, a wait        copies-one    one write of 256 KiB in their place
 *   buffer     a blocking write of 16 MiB, a kernel, a wait               buffer-two    the next write meanwhile, into a second buffer
 *   wait       a kernel, a wait, host work that does not need it          wait-later    a kernel, host work, a wait
 *   host       a kernel, a wait, host work that needs it                  host-beside   that work on another thread, a turn behind
 *   kernels    eight short kernels one after the other, a wait            kernels-one   one kernel with the work of all
 *
 * The last line says when the loop began and ended on the monotonic clock: `loop_ns BEGIN END`.  Build: cc -O2 pairs.c -lOpenCL -lpthread
 */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ITEMS = 4096, GROUP = 64, BYTES = 16 << 20, PIECES = 16, PIECE = 16384, HOST_NS = 1500000, SHORTS = 8 };

static const char source[] = "__kernel void work(__global float *a, int rounds) {\n"
                             "    int i = get_global_id(0);\n"
                             "    float x = a[i];\n"
                             "    for (int k = 0; k < rounds; k++) x = x * 0.999f + 0.5f;\n"
                             "    a[i] = x;\n"
                             "}\n";

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Work for so much of this thread's own time, whatever else the machine does. */
static void burn(int64_t ns)
{
    struct timespec time;
    int64_t start = -1, at;
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        at = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
        if (start < 0) start = at;
    } while (at - start < ns);
}

static void *burning(void *nothing)
{
    burn(HOST_NS);
    return nothing;
}

static void need(cl_int result, const char *what)
{
    if (result == CL_SUCCESS) return;
    fprintf(stderr, "pairs: %s: OpenCL error %d\n", what, result);
    exit(1);
}

static cl_command_queue queue, second;
static cl_kernel kernel;
static cl_mem data[2];
static size_t items = ITEMS, group = GROUP;

static void launch(int which, int rounds)
{
    need(clSetKernelArg(kernel, 0, sizeof data[which], &data[which]), "clSetKernelArg");
    need(clSetKernelArg(kernel, 1, sizeof rounds, &rounds), "clSetKernelArg");
    need(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &group, 0, NULL, NULL), "clEnqueueNDRangeKernel");
}

int main(int count, char **words)
{
    static char host[BYTES];
    const char *kind = count > 1 ? words[1] : "", *text = source;
    int iterations = count > 2 ? atoi(words[2]) : 100, running = 0;
    cl_platform_id platform;
    cl_device_id device;
    cl_int result;
    pthread_t thread;

    memset(host, 1, sizeof host);
    /* one group is the work of one processor: another is left for the copy */
    if (strncmp(kind, "buffer", 6) == 0) group = ITEMS;
    need(clGetPlatformIDs(1, &platform, NULL), "no platform");
    need(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "no device");
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &result);
    need(result, "clCreateContext");
    queue = clCreateCommandQueue(context, device, 0, &result);
    need(result, "clCreateCommandQueue");
    second = clCreateCommandQueue(context, device, 0, &result);
    need(result, "clCreateCommandQueue");
    cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, &result);
    need(result, "clCreateProgramWithSource");
    need(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
    kernel = clCreateKernel(program, "work", &result);
    need(result, "clCreateKernel");
    for (int k = 0; k < 2; k++) {
        data[k] = clCreateBuffer(context, CL_MEM_READ_WRITE, BYTES, NULL, &result);
        need(result, "clCreateBuffer");
        need(clEnqueueWriteBuffer(queue, data[k], CL_TRUE, 0, BYTES, host, 0, NULL, NULL), "clEnqueueWriteBuffer");
        launch(k, 300);
        need(clFinish(queue), "clFinish");
    }
    /* sizes that show the link's fixed cost and its bandwidth */
    for (int k = 0; k < 12; k++)
        need(clEnqueueWriteBuffer(queue, data[0], CL_TRUE, 0, (size_t)PIECE << (k % 6), host, 0, NULL, NULL), "clEnqueueWriteBuffer");

    int64_t begin = now();
#define IS(word) (strcmp(kind, word) == 0)
#define WRITE(where, which, blocking, offset, bytes, event) \
    need(clEnqueueWriteBuffer(where, data[which], blocking, offset, bytes, host + (offset), 0, NULL, event), "clEnqueueWriteBuffer")
    for (int k = 0; k < iterations; k++) {
        if (IS("copies")) {
            for (int p = 0; p < PIECES; p++) WRITE(queue, 0, CL_TRUE, (size_t)p * PIECE, PIECE, NULL);
            launch(0, 30);
        } else if (IS("copies-one")) {
            WRITE(queue, 0, CL_TRUE, 0, (size_t)PIECES * PIECE, NULL);
            launch(0, 30);
        } else if (IS("buffer")) {
            WRITE(queue, 0, CL_TRUE, 0, BYTES, NULL);
            launch(0, 300);
        } else if (IS("buffer-two")) {
            if (k == 0) WRITE(second, 0, CL_TRUE, 0, BYTES, NULL);
            else need(clFinish(second), "clFinish");
            launch(k % 2, 300);
            need(clFlush(queue), "clFlush");
            if (k + 1 < iterations) WRITE(second, (k + 1) % 2, CL_FALSE, 0, BYTES, NULL);
            need(clFlush(second), "clFlush");
        } else if (IS("wait") || IS("host")) {
            launch(0, 300);
            need(clFinish(queue), "clFinish");
            burn(HOST_NS);
        } else if (IS("wait-later")) {
            launch(0, 300);
            need(clFlush(queue), "clFlush");
            burn(HOST_NS);
        } else if (IS("host-beside")) {
            launch(0, 300);
            need(clFinish(queue), "clFinish");
            if (running) pthread_join(thread, NULL);
            running = pthread_create(&thread, NULL, burning, NULL) == 0;
        } else if (IS("kernels")) {
            for (int p = 0; p < SHORTS; p++) launch(0, 5);
        } else if (IS("kernels-one")) {
            launch(0, 5 * SHORTS);
        } else {
            fprintf(stderr, "pairs: no such kind\n");
            return 2;
        }
        if (!IS("host") && !IS("wait") && !IS("host-beside")) need(clFinish(queue), "clFinish");
    }
    if (running) pthread_join(thread, NULL);
    int64_t end = now();
    need(clFinish(second), "clFinish");
    printf("loop_ns %lld %lld\n", (long long)begin, (long long)end);
    return 0;
}
