/* shapes.c - OpenCL programs of known shape: shapes KIND ITERATIONS
 *
 *   sync     a launch, then a wait
 *   async    launches ahead, a wait every fifty
 *   copy     a blocking copy in, a kernel, a blocking copy out
 *   host     the host works beside the kernel, then waits
 *   reduce   four launches, a blocking read of 4 B, some host work: a solver's dot product
 *   stream   copies and kernels ahead without blocking, a wait every ten
 *
 * The last line says when the loop began and ended on the monotonic clock: `loop_ns BEGIN END`.
 * LOOP_FROM_NS, a time on that clock, has it wait until then.  Build: cc -O2 shapes.c -lOpenCL
 */
#include "../../opencl_frame.h"

enum { ITEMS = 4096, GROUP = 64, ROUNDS = 20, HOST_NS = 150000, LITTLE_NS = 20000 };

static void burn(int64_t ns)
{
    for (int64_t start = now(); now() - start < ns;)
        ;
}

int main(int count, char **words)
{
    static float host[ITEMS];
    size_t items = ITEMS, group = GROUP;
    const char *kind = count > 1 ? words[1] : "";
    int iterations = count > 2 ? atoi(words[2]) : 300, rounds = ROUNDS;

    open_device();
    cl_command_queue queue = new_queue();
    cl_mem data = new_buffer(sizeof host);
    need(clSetKernelArg(kernel, 0, sizeof data, &data), "clSetKernelArg");
    need(clSetKernelArg(kernel, 1, sizeof rounds, &rounds), "clSetKernelArg");
    need(clEnqueueWriteBuffer(queue, data, CL_TRUE, 0, sizeof host, host, 0, NULL, NULL), "clEnqueueWriteBuffer");

#define LAUNCH() need(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &group, 0, NULL, NULL), "clEnqueueNDRangeKernel")
#define WRITE(blocking) need(clEnqueueWriteBuffer(queue, data, blocking, 0, sizeof host, host, 0, NULL, NULL), "clEnqueueWriteBuffer")
#define READ(blocking, bytes) need(clEnqueueReadBuffer(queue, data, blocking, 0, bytes, host, 0, NULL, NULL), "clEnqueueReadBuffer")
#define FINISH() need(clFinish(queue), "clFinish")

    LAUNCH();
    FINISH();
    const char *from = getenv("LOOP_FROM_NS");
    int64_t until = from ? atoll(from) : 0;
    if (until > now()) {
        struct timespec time = {until / 1000000000, until % 1000000000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
    }
    int64_t start = now();
    for (int i = 0; i < iterations; i++) {
        if (!strcmp(kind, "sync")) {
            LAUNCH();
            FINISH();
        } else if (!strcmp(kind, "async")) {
            LAUNCH();
            if (i % 50 == 49) FINISH();
        } else if (!strcmp(kind, "copy")) {
            WRITE(CL_TRUE);
            LAUNCH();
            READ(CL_TRUE, sizeof host);
        } else if (!strcmp(kind, "host")) {
            LAUNCH();
            need(clFlush(queue), "clFlush");
            burn(HOST_NS);
            FINISH();
        } else if (!strcmp(kind, "reduce")) {
            for (int k = 0; k < 4; k++) LAUNCH();
            READ(CL_TRUE, sizeof *host);
            burn(LITTLE_NS);
        } else if (!strcmp(kind, "stream")) {
            WRITE(CL_FALSE);
            LAUNCH();
            READ(CL_FALSE, sizeof host);
            if (i % 10 == 9) FINISH();
        } else {
            fprintf(stderr, "shapes: no such kind: %s\n", kind);
            return 2;
        }
    }
    FINISH();
    say_loop(start, now());
    clReleaseMemObject(data);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    return 0;
}
