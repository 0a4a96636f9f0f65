/* opencl_frame.h - the frame of the timed OpenCL programs: one kernel whose work is a number of rounds, a clock, and errors that end the program
 *
 * A program includes it, calls `open_device`, works, and says with `say_loop` when its loop began and ended on the monotonic clock.
 */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static cl_context context;
static cl_device_id device;
static cl_program program;
static cl_kernel kernel;

static int64_t clock_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int64_t now(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static void need(cl_int result, const char *what)
{
    if (result == CL_SUCCESS) return;
    fprintf(stderr, "%s: OpenCL error %d\n", what, result);
    exit(1);
}

/* Take the first device, and build the kernel `work`: each item multiplies and adds for so many rounds. */
static void open_device(void)
{
    const char *text = "__kernel void work(__global float *a, int rounds) {\n"
                       "    int i = get_global_id(0);\n"
                       "    float x = a[i];\n"
                       "    for (int k = 0; k < rounds; k++) x = x * 0.999f + 0.5f;\n"
                       "    a[i] = x;\n"
                       "}\n";
    cl_platform_id platform;
    cl_int result;
    need(clGetPlatformIDs(1, &platform, NULL), "no platform");
    need(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "no device");
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &result);
    need(result, "clCreateContext");
    program = clCreateProgramWithSource(context, 1, &text, NULL, &result);
    need(result, "clCreateProgramWithSource");
    need(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
    kernel = clCreateKernel(program, "work", &result);
    need(result, "clCreateKernel");
}

static cl_command_queue new_queue(void)
{
    cl_int result;
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &result);
    need(result, "clCreateCommandQueue");
    return queue;
}

static cl_mem new_buffer(size_t bytes)
{
    cl_int result;
    cl_mem data = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &result);
    need(result, "clCreateBuffer");
    return data;
}

static void say_loop(int64_t begin, int64_t end)
{
    printf("loop_ns %lld %lld\n", (long long)begin, (long long)end);
}
