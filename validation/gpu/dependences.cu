/* dependences.cu - programs that wait for the device in one way each, and are reduced to that: what a delay of calls does to them is
 * known beforehand, so an error of a prediction says whether counting or waiting is modelled wrongly.
 *
 *     dependences NAME [arg=value ...]        dependences list
 *
 * launch        64 short kernels on one stream, then a wait for it (65 calls that cross to the device): all of a delay shows
 * copy          blocking copies of 8 B to 1 MiB, in and out, pinned (10 calls): all of it shows
 * synchronous   one kernel, then a wait for the device (2 calls): the launch's share hides behind the kernel until it is as long
 * overlapped    two buffers, two streams, asynchronous copies, events (7 calls): hidden up to about a seventh of an iteration
 * beside        one kernel, host work beside it, then a wait (2 calls): both hide in the host work as far as there is room
 * turn          a blocking copy in, a kernel, a blocking copy out, pinned (3 calls): all of it shows but what hides behind the kernel
 * reduce        four kernels, a blocking read of 4 B, some host work, as a solver's dot product (5 calls)
 *
 * The last three, with synchronous, launch and overlapped, are the twins of validation/distance/programs/shapes.c.
 * Arguments and output are those of programs.cu.  Kernels are launched through the API and the host side is plain C, so that the
 * tests run all of this without a GPU, where the kernel is only a name. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCKS = 64, THREADS = 128, BURST = 64, SIZES = 5, BUFFERS = 2, MOST_DELAYS = 32, BESIDE_NS = 150000, LITTLE_NS = 20000, TURN_BYTES = 16384 };
#define LARGEST ((size_t)1 << 20)

static const size_t sizes[SIZES] = { 8, 256, 8192, 262144, LARGEST };
static float *device_data[BUFFERS], *host_in[BUFFERS], *host_out[BUFFERS];
static cudaStream_t feeding, working;
static cudaEvent_t fed[BUFFERS], done[BUFFERS];

static void stop(const char *call, cudaError_t error, int line)
{
    fprintf(stderr, "dependences.cu:%d: %s: %s\n", line, call, cudaGetErrorString(error));
    exit(2);
}
#define CHECK(call)                                                      \
    do {                                                                 \
        cudaError_t error_ = (call);                                     \
        if (error_ != cudaSuccess) stop(#call, error_, __LINE__);        \
    } while (0)

/* ---- the device's work: a chain of dependent multiplications, always the same amount for the same `work` ---- */

#ifdef __CUDACC__
__global__ void chain(float *data, long work)
{
    size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x;
    float value = data[i];
    for (long k = 0; k < work; k++) value = value * 0.999f + 0.5f;
    data[i] = value;
}
#else
static const char chain[] = "_Z5chainPfl";
#endif

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

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void host_works(int64_t ns)
{
    for (int64_t start = now_ns(); now_ns() - start < ns;)
        ;
}

static void run_beside(long work, long iterations)
{
    for (long i = 0; i < iterations; i++) {
        launch_chain(device_data[0], work, working);
        host_works(BESIDE_NS);
        CHECK(cudaStreamSynchronize(working));
    }
}

static void run_turn(long work, long iterations)
{
    for (long i = 0; i < iterations; i++) {
        CHECK(cudaMemcpy(device_data[0], host_in[0], TURN_BYTES, cudaMemcpyHostToDevice));
        launch_chain(device_data[0], work, NULL);
        CHECK(cudaMemcpy(host_out[0], device_data[0], TURN_BYTES, cudaMemcpyDeviceToHost));
    }
}

static void run_reduce(long work, long iterations)
{
    for (long i = 0; i < iterations; i++) {
        for (int k = 0; k < 4; k++) launch_chain(device_data[0], work, NULL);
        CHECK(cudaMemcpy(host_out[0], device_data[0], sizeof(float), cudaMemcpyDeviceToHost));
        host_works(LITTLE_NS);
    }
}

typedef struct {
    const char *name;
    void (*run)(long work, long iterations);
    long work, iters; /* unless the arguments say otherwise; a unit of work is some 2.5 ns of a kernel */
    int calls;        /* calls an iteration that cross to the device */
} Program;

static const Program programs[] = {
    { "launch", run_launch, 0, 500, BURST + 1 },
    { "copy", run_copy, 0, 500, 2 * SIZES },
    { "synchronous", run_synchronous, 8000, 5000, 2 },
    { "overlapped", run_overlapped, 80000, 1000, 7 },
    { "beside", run_beside, 20000, 1000, 2 },
    { "turn", run_turn, 8000, 1000, 3 },
    { "reduce", run_reduce, 8000, 1000, 5 },
};

/* ---- arguments ---- */

static const char *argument(int count, char **words, const char *name, const char *otherwise)
{
    size_t length = strlen(name);
    for (int i = 2; i < count; i++)
        if (strncmp(words[i], name, length) == 0 && words[i][length] == '=') return words[i] + length + 1;
    return otherwise;
}

static double number(int count, char **words, const char *name, double otherwise, double least)
{
    const char *text = argument(count, words, name, NULL);
    char *rest = NULL;
    double value = text ? strtod(text, &rest) : otherwise;
    if ((text && (rest == text || *rest)) || !(value >= least && value <= 1e15)) {
        fprintf(stderr, "%s: a number of at least %g\n", name, least);
        exit(1);
    }
    return value;
}

static void known(int count, char **words)
{
    static const char *const names[] = { "iters", "warmup", "repeats", "slacks", "cap_s", "work" };
    for (int i = 2; i < count; i++) {
        size_t k = 0, length = strcspn(words[i], "=");
        while (k < sizeof names / sizeof *names && (strlen(names[k]) != length || strncmp(names[k], words[i], length) || !words[i][length])) k++;
        if (k == sizeof names / sizeof *names) {
            fprintf(stderr, "not one of iters, warmup, repeats, slacks, cap_s, work with a value: %s\n", words[i]);
            exit(1);
        }
    }
}

/* ---- measuring ---- */

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

/* The recorder, if it is in this process; this never loads it. */
static void (*mark)(const char *label);
static int (*set_slack)(int64_t ns);

static void find_recorder(void)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    int (*status)(void) = NULL;
    if (!library) return;
    *(void **)&status = dlsym(library, "tb_status");
    if (!status || status() != 0) return;
    *(void **)&mark = dlsym(library, "tb_mark");
    *(void **)&set_slack = dlsym(library, "tb_set_slack");
}

static int past_deadline(void)
{
    const char *text = getenv("TB_DEADLINE");
    return text && *text && (double)time(NULL) >= atof(text);
}

static void measure(const Program *program, int count, char **words)
{
    double delays[MOST_DELAYS] = { -1 }, iteration_ns = 0, cap = number(count, words, "cap_s", 60, 0);
    long work = (long)number(count, words, "work", (double)program->work, 0);
    long iters = (long)number(count, words, "iters", (double)program->iters, 1);
    long repeats = (long)number(count, words, "repeats", 1, 1), warmup = (long)number(count, words, "warmup", 20, 0);
    int most = 0, sweep;
    for (const char *text = argument(count, words, "slacks", ""); *text && most < MOST_DELAYS; most++) {
        char *rest;
        delays[most] = strtod(text, &rest);
        if (rest == text || delays[most] < 0) exit((fprintf(stderr, "slacks: delays in ns, separated by commas\n"), 1));
        text = rest + (*rest == ',');
    }
    sweep = most > 0;
    find_recorder();
    if (sweep && !(set_slack && set_slack(0))) exit((fprintf(stderr, "slacks= needs the recorder with TB_SLACK_NS=0\n"), 3));
    if (warmup) program->run(work, warmup);
    CHECK(cudaDeviceSynchronize());
    for (long r = 0; r < repeats; r++)
        for (int d = 0; d < (sweep ? most : 1); d++) {
            long n = iters;
            double expected = iteration_ns + program->calls * (delays[d] > 0 ? delays[d] : 0);
            if (past_deadline()) {
                printf("{\"program\": \"%s\", \"skipped\": \"deadline\", \"rep\": %ld, \"slack_ns\": %.0f}\n", program->name, r, delays[d]);
                continue;
            }
            if (iteration_ns > 0 && expected * (double)n > cap * 1e9) n = (long)(cap * 1e9 / expected);
            if (n < 3) n = 3;
            if (sweep) set_slack((int64_t)delays[d]);
            if (mark) mark("loop_begin");
            int64_t begin = now_ns();
            program->run(work, n);
            int64_t end = now_ns();
            if (mark) mark("loop_end");
            if (sweep) set_slack(0);
            CHECK(cudaDeviceSynchronize());
            if (iteration_ns <= 0) iteration_ns = (double)(end - begin) / (double)n;
            printf("{\"program\": \"%s\", \"work\": %ld, \"rep\": %ld, \"slack_ns\": %.0f, \"injected\": %s, \"iters\": %ld, \"wall_ns\": %lld, "
                   "\"per_iter_ns\": %.3f, \"t0_ns\": %lld, \"t1_ns\": %lld, \"boundary_calls\": %ld}\n",
                   program->name, work, r, delays[d], mark ? "true" : "false", n, (long long)(end - begin), (double)(end - begin) / (double)n,
                   (long long)begin, (long long)end, n * program->calls);
            fflush(stdout);
        }
}

int main(int count, char **words)
{
    const size_t all = sizeof programs / sizeof *programs;
    for (size_t i = 0; i < all && count > 1; i++)
        if (strcmp(words[1], programs[i].name) == 0) {
            known(count, words);
            prepare();
            measure(&programs[i], count, words);
            return 0;
        }
    for (size_t i = 0; i < all; i++) printf("%-12s work=%ld iters=%ld\n", programs[i].name, programs[i].work, programs[i].iters);
    return count > 1 && strcmp(words[1], "list") == 0 ? 0 : 1;
}
