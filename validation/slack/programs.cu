/* Four programs whose run time depends on host-device latency in four ways.
 *
 *     programs machine                          the GPU (one line of JSON)
 *     programs calibrate NAME                   how much work a kernel of NAME is given, and what an iteration takes
 *     programs run NAME WORK ITERATIONS         run; time on the host's clock
 *
 * launch        64 small kernels on one stream, then a wait: bound by the launch calls
 * copy          blocking copies both ways, 8 bytes to 1 MiB: bound by the copies and their latency
 * synchronous   one kernel, then a wait: host and device take turns
 * overlapped    two buffers, two streams, asynchronous copies, events: the device hides the host's calls, up to a point
 *
 * Kernels are launched through the API and the host side is plain C, so that the tests can run all of this without a GPU.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCKS = 64, THREADS = 128, BURST = 64, SIZES = 5, BUFFERS = 2, WARM_UP = 20 };
#define LARGEST ((size_t)1 << 20)

static const size_t sizes[SIZES] = { 8, 256, 8192, 262144, LARGEST };
static float *device_data[BUFFERS], *host_in[BUFFERS], *host_out[BUFFERS];
static cudaStream_t feeding, working;
static cudaEvent_t fed[BUFFERS], done[BUFFERS];

static void stop(const char *call, cudaError_t error, int line)
{
    fprintf(stderr, "programs.cu:%d: %s: %s\n", line, call, cudaGetErrorString(error));
    exit(2);
}
#define CHECK(call)                                                      \
    do {                                                                 \
        cudaError_t error_ = (call);                                     \
        if (error_ != cudaSuccess) stop(#call, error_, __LINE__);        \
    } while (0)

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- the device's work: a chain of dependent multiplications, always the same amount for the same `work` ---- */

__global__ void chain(float *data, long work)
{
    size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x;
    float value = data[i];
    for (long k = 0; k < work; k++) value = value * 0.999f + 0.5f;
    data[i] = value;
}

static void launch_chain(float *data, long work, cudaStream_t stream)
{
    void *arguments[2] = { &data, &work };
    dim3 grid = { BLOCKS, 1, 1 }, block = { THREADS, 1, 1 };
    CHECK(cudaLaunchKernel((const void *)chain, grid, block, arguments, 0, stream));
}

/* ---- the programs ---- */

static void run_launch(long work, long iterations)
{
    for (long i = 0; i < iterations; i++) {
        for (int k = 0; k < BURST; k++) launch_chain(device_data[0], work, working);
        CHECK(cudaStreamSynchronize(working));
    }
}

static void run_copy(long work, long iterations)
{
    (void)work;
    for (long i = 0; i < iterations; i++)
        for (int k = 0; k < SIZES; k++) {
            CHECK(cudaMemcpy(device_data[0], host_in[0], sizes[k], cudaMemcpyHostToDevice));
            CHECK(cudaMemcpy(host_out[0], device_data[0], sizes[k], cudaMemcpyDeviceToHost));
        }
}

static void run_synchronous(long work, long iterations)
{
    for (long i = 0; i < iterations; i++) {
        launch_chain(device_data[0], work, working);
        CHECK(cudaDeviceSynchronize());
    }
}

static void run_overlapped(long work, long iterations)
{
    for (long i = 0; i < iterations; i++) {
        int b = (int)(i % BUFFERS);
        CHECK(cudaEventSynchronize(done[b]));
        CHECK(cudaMemcpyAsync(device_data[b], host_in[b], LARGEST, cudaMemcpyHostToDevice, feeding));
        CHECK(cudaEventRecord(fed[b], feeding));
        CHECK(cudaStreamWaitEvent(working, fed[b], 0));
        launch_chain(device_data[b], work, working);
        CHECK(cudaMemcpyAsync(host_out[b], device_data[b], LARGEST, cudaMemcpyDeviceToHost, working));
        CHECK(cudaEventRecord(done[b], working));
    }
    CHECK(cudaStreamSynchronize(working));
}

typedef struct {
    const char *name;
    void (*run)(long work, long iterations);
    double kernel_seconds; /* aimed at; 0: no work, the shortest kernel there is */
    int calls;             /* calls an iteration that cross to the device */
} Program;

static const Program programs[] = {
    { "launch", run_launch, 0, BURST + 1 },
    { "copy", run_copy, 0, 2 * SIZES },
    { "synchronous", run_synchronous, 20e-6, 2 },
    { "overlapped", run_overlapped, 200e-6, 7 },
};

static const Program *find(const char *name)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (strcmp(programs[i].name, name) == 0) return &programs[i];
    fprintf(stderr, "no program is called %s: launch, copy, synchronous, overlapped\n", name);
    exit(1);
}

/* ---- setting up, measuring ---- */

static void prepare(void)
{
    CHECK(cudaSetDeviceFlags(cudaDeviceScheduleSpin));
    CHECK(cudaStreamCreateWithFlags(&feeding, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&working, cudaStreamNonBlocking));
    for (int b = 0; b < BUFFERS; b++) {
        CHECK(cudaMalloc((void **)&device_data[b], LARGEST));
        CHECK(cudaMallocHost((void **)&host_in[b], LARGEST));
        CHECK(cudaMallocHost((void **)&host_out[b], LARGEST));
        memset(host_in[b], 0, LARGEST);
        CHECK(cudaMemset(device_data[b], 0, LARGEST));
        CHECK(cudaEventCreateWithFlags(&fed[b], cudaEventDisableTiming));
        CHECK(cudaEventCreateWithFlags(&done[b], cudaEventDisableTiming));
    }
    CHECK(cudaDeviceSynchronize());
}

static double seconds_of(void (*run)(long, long), long work, long iterations)
{
    double begin = now_seconds();
    run(work, iterations);
    return now_seconds() - begin;
}

/* Work that makes a kernel last `seconds`: the slope between no work and enough of it to last 2 ms. */
static long work_for(double seconds)
{
    double empty, full = 0;
    long work = 1024;
    if (seconds <= 0) return 0;
    run_synchronous(0, WARM_UP);
    empty = seconds_of(run_synchronous, 0, 1);
    while ((full = seconds_of(run_synchronous, work, 1)) < 2e-3 + empty && work < (1L << 40)) work *= 2;
    work = (long)(seconds / ((full - empty) / (double)work));
    return work > 0 ? work : 1;
}

static void calibrate(const Program *program)
{
    long work = work_for(program->kernel_seconds), iterations = 10;
    double seconds;
    program->run(work, WARM_UP);
    while ((seconds = seconds_of(program->run, work, iterations)) < 0.05 && iterations < (1L << 30)) iterations *= 2;
    printf("{\"program\": \"%s\", \"work\": %ld, \"iteration_s\": %.9e, \"calls\": %d}\n", program->name, work,
           seconds / (double)iterations, program->calls);
}

/* The injected library's mark, if one is loaded; this never loads it. */
static void (*window(void))(int)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    void (*mark)(int) = NULL;
    if (library) *(void **)&mark = dlsym(library, "slack_window");
    return mark;
}

static void measure(const Program *program, long work, long iterations)
{
    void (*mark)(int) = window();
    double seconds;
    program->run(work, WARM_UP);
    CHECK(cudaDeviceSynchronize());
    if (mark) mark(1);
    seconds = seconds_of(program->run, work, iterations);
    if (mark) mark(0);
    CHECK(cudaDeviceSynchronize());
    printf("{\"program\": \"%s\", \"work\": %ld, \"iterations\": %ld, \"seconds\": %.9f}\n", program->name, work, iterations, seconds);
}

static void machine(void)
{
    struct cudaDeviceProp gpu;
    int driver = 0, runtime = 0;
    CHECK(cudaGetDeviceProperties(&gpu, 0));
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaRuntimeGetVersion(&runtime));
    for (char *c = gpu.name; *c; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ') *c = ' ';
    printf("{\"gpu\": \"%s\", \"compute_major\": %d, \"compute_minor\": %d, \"multiprocessors\": %d, \"memory_bytes\": %zu, "
           "\"copy_engines\": %d, \"cuda_driver\": %d, \"cuda_runtime\": %d}\n",
           gpu.name, gpu.major, gpu.minor, gpu.multiProcessorCount, gpu.totalGlobalMem, gpu.asyncEngineCount, driver, runtime);
}

int main(int count, char **words)
{
    if (count == 2 && strcmp(words[1], "machine") == 0) {
        machine();
    } else if (count == 3 && strcmp(words[1], "calibrate") == 0) {
        const Program *program = find(words[2]);
        prepare();
        calibrate(program);
    } else if (count == 5 && strcmp(words[1], "run") == 0) {
        const Program *program = find(words[2]);
        long work = atol(words[3]), iterations = atol(words[4]);
        if (work < 0 || iterations < 1) return fprintf(stderr, "WORK is at least 0, ITERATIONS at least 1\n"), 1;
        prepare();
        measure(program, work, iterations);
    } else {
        return fprintf(stderr, "usage: programs machine | calibrate NAME | run NAME WORK ITERATIONS\n"), 1;
    }
    return 0;
}
