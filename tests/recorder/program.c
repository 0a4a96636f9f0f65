/* Programs for the tests of the recorder: program WHAT [N].  Each line of its output is what it did, for the test to find again. */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern void standin_migrate(int counter, uint64_t value, uint32_t flags), standin_overhead(int kind, int64_t length), standin_strange(void);
extern uint32_t standin_range_begin(const char *text, const char *domain);
extern void standin_range_end(uint32_t number), standin_mark(const char *text);

static const dim3 grid = { 8, 2, 1 }, block = { 128, 1, 1 };
static char host[1 << 16];

static void loop(int count)
{
    void *memory;
    cudaMalloc(&memory, sizeof host);
    for (int i = 0; i < count; i++) {
        cudaMemcpy(memory, host, 4096, cudaMemcpyHostToDevice);
        cudaLaunchKernel(i % 2 ? "odd" : NULL, grid, block, NULL, 64, NULL);
        cudaMemcpy(host, memory, 1024, cudaMemcpyDeviceToHost);
        cudaDeviceSynchronize();
    }
    cudaFree(memory);
}

static void overlapped(int count)
{
    cudaStream_t streams[2];
    cudaEvent_t event;
    void *memory, *pinned;
    cudaMalloc(&memory, 1 << 16);
    cudaMallocHost(&pinned, 1 << 16);
    for (int i = 0; i < 2; i++) cudaStreamCreateWithFlags(&streams[i], 1);
    cudaEventCreateWithFlags(&event, 2);
    for (int i = 0; i < count; i++) {
        cudaMemcpyAsync(memory, pinned, 1 << 16, cudaMemcpyHostToDevice, streams[0]);
        cudaEventRecord(event, streams[0]);
        cudaStreamWaitEvent(streams[1], event, 0);
        cudaLaunchKernel("work", grid, block, NULL, 0, streams[1]);
        cudaStreamSynchronize(streams[1]);
    }
    cudaEventSynchronize(event);
    cudaMemset(memory, 0, 256);
    cudaMemcpyPeerAsync(memory, 1, memory, 0, 512, streams[0]);
    cudaDeviceSynchronize();
}

static void graphs(int count)
{
    int nodes = 3; /* the stand-in's executable graph is its number of nodes */
    for (int i = 0; i < count; i++) cudaGraphLaunch((cudaGraphExec_t)&nodes, NULL), cudaDeviceSynchronize();
}

static void *in_thread(void *count)
{
    loop(*(int *)count);
    return NULL;
}

static void threads(int count)
{
    pthread_t all[8];
    for (int i = 0; i < 8; i++) pthread_create(&all[i], NULL, in_thread, &count);
    for (int i = 0; i < 8; i++) pthread_join(all[i], NULL);
}

static void other(void)
{
    void *memory;
    cudaMallocManaged(&memory, 1 << 16, 1);
    standin_migrate(1, 65536, 3), standin_migrate(2, 4096, 2), standin_migrate(8, 8192, 1);
    standin_migrate(3, 1, 0), standin_migrate(4, 12, 1), standin_migrate(5, 1, 0);
    standin_overhead(1 << 16, 2000), standin_overhead(2 << 16, 500);
    uint32_t outer = standin_range_begin("step\n#end\t\x1b[31m", NULL), inner = standin_range_begin("solve", "app");
    standin_mark("here");
    cudaLaunchKernel(NULL, grid, block, NULL, 0, NULL);
    standin_range_end(inner), standin_range_end(outer);
    standin_range_begin("never ended", NULL);
    cudaDeviceSynchronize();
}

/* As a program that knows the recorder does: it finds the library by its path, and goes on without it. */
static void marks(int count)
{
    void *library = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW);
    void (*mark)(const char *) = NULL;
    int (*set_slack)(int64_t) = NULL;
    *(void **)&mark = dlsym(library, "tb_mark"), *(void **)&set_slack = dlsym(library, "tb_set_slack");
    loop(count), mark("loop_begin"), printf("%d ", set_slack(INT64_MAX)), printf("%d\n", set_slack(500)), loop(count), mark("loop_end"), loop(count);
}

static void end(const char *how)
{
    fflush(stdout);
    if (!strcmp(how, "segv")) raise(SIGSEGV);
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "kill")) kill(getpid(), SIGKILL);
    if (!strcmp(how, "_exit")) _exit(7);
    if (!strcmp(how, "exit")) exit(7);
}

/* Until the recording of this process holds so many kernels, for a minute at most; a machine that is busy flushes late. */
static void await_flush(int kernels)
{
    const char *given = getenv("TB_TRACE"), *mark = given ? strstr(given, "%p") : NULL;
    char path[4096], line[4096];
    if (!mark) return;
    snprintf(path, sizeof path, "%.*s%d%s", (int)(mark - given), given, (int)getpid(), mark + 2);
    for (int look = 0, seen = 0; look < 3000 && seen < kernels; look++) {
        FILE *file = fopen(path, "r");
        for (seen = 0; file && fgets(line, sizeof line, file);) seen += !strncmp(line, "K,", 2);
        if (file) fclose(file);
        usleep(20000);
    }
}

static void wait_for_signal(int signal) { dprintf(1, "got %d\n", signal), _exit(40); }

int main(int count_words, char **words)
{
    const char *what = count_words > 1 ? words[1] : "";
    int count = count_words > 2 ? atoi(words[2]) : 20, status = 0;
    if (!strcmp(what, "loop")) loop(count);
    else if (!strcmp(what, "overlapped")) overlapped(count);
    else if (!strcmp(what, "graphs")) graphs(count);
    else if (!strcmp(what, "threads")) threads(count);
    else if (!strcmp(what, "other")) other();
    else if (!strcmp(what, "marks")) marks(count);
    else if (!strcmp(what, "strange")) loop(count), standin_strange();
    else if (!strcmp(what, "reset")) loop(count), cudaDeviceReset(), loop(count);
    else if (!strcmp(what, "ends")) {
        /* until a flush has come, then an end without another */
        loop(20), await_flush(20), loop(count), end(words[3]);
    } else if (!strcmp(what, "fork")) {
        loop(count);
        pid_t child = fork();
        if (!child) {
            loop(count); /* on a real device this fails; it must not reach the parent's file */
            exit(0);
        }
        waitpid(child, &status, 0);
        loop(count);
        if (!fork()) execl(words[0], words[0], "loop", words[2], (char *)NULL);
        wait(&status);
    } else if (!strcmp(what, "forked")) {
        for (int i = 0; i < 2; i++)
            if (!fork()) return loop(count + i), 0;
        while (wait(&status) > 0) { }
    } else if (!strcmp(what, "exec")) {
        loop(count);
        execl(words[0], words[0], "loop", words[2], (char *)NULL);
    } else if (!strcmp(what, "waits")) {
        signal(SIGTERM, wait_for_signal), signal(SIGUSR1, wait_for_signal);
        loop(count), dprintf(1, "ready\n");
        for (;;) pause();
    } else if (!strcmp(what, "print")) {
        for (int i = 2; i < count_words; i++) puts(words[i]);
        loop(1);
    } else if (!strcmp(what, "nothing")) return count;
    else return 1;
    return 0;
}
