/* pairs.c - OpenCL programs with and without one change: pairs KIND ITERATIONS
 *
 *   copies      sixteen blocking writes of 16 KiB, a kernel, a wait       copies-one      one write of 256 KiB in their place
 *   buffer      a blocking write of 16 MiB, a kernel, a wait              buffer-two      the next write meanwhile, into a second buffer
 *   wait        a kernel, a wait, host work that does not need it         wait-later      a kernel, host work, a wait
 *   host        a kernel, a wait, host work that needs it                 host-beside     that work on another thread, a turn behind
 *   kernels     eight short kernels one after the other, a wait           kernels-one     one kernel with the work of all
 *
 *   feed        a blocking write of 16 MiB, a kernel a quarter as long    feed-two        the next write meanwhile, into a second buffer
 *   queue       writes and kernels ahead on one queue, a wait every five  queue-two       the writes on a queue and in buffers of their own
 *   alloc       a buffer made, written, used and released                 alloc-pool      the same buffer every turn
 *   early       a kernel, a wait, host work, a blocking write             early-later     the wait between host work and write
 *   short       a kernel, a wait, host work half as long                  short-beside    that work on another thread, a turn behind
 *   loop        a kernel, a wait, the kernel's loop on the host           loop-device     that loop as a second kernel
 *   long        four kernels of some 0.4 ms, a wait                       long-one        one kernel with the work of all
 *   tiny        32 kernels of one group, a wait                           tiny-one        one kernel with the work of all
 *   reads       a kernel, sixteen blocking reads of 4 KiB                 reads-one       one read of 64 KiB in their place
 *   waits       eight kernels, a wait behind each                         waits-one       one wait behind all
 *
 * Build: cc -O2 pairs.c -lOpenCL -lpthread
 */
#include "../opencl_frame.h"
#include <pthread.h>

enum { ITEMS = 4096, GROUP = 64, BYTES = 16 << 20, PIECES = 16, PIECE = 16384, LITTLE = 4096, HOST_NS = 1500000, SHORTS = 8, TINY = 32 };
enum { LONG_ROUNDS = 300, SHORT_ROUNDS = 5, LONGS = 4 };

static char host[BYTES];
static float numbers[ITEMS];
static cl_command_queue queue, second;
static cl_mem data[2];
static size_t items = ITEMS, group = GROUP;
static int iterations;
static pthread_t thread;
static int running;

/* Work for so much of this thread's own time, whatever else the machine does. */
static void burn(int64_t ns)
{
    int64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) - start < ns)
        ;
}

static void *burning(void *ns)
{
    burn(*(const int64_t *)ns);
    return NULL;
}

/* Let the work of a turn run beside the next one. */
static void burn_beside(const int64_t *ns)
{
    if (running) pthread_join(thread, NULL);
    running = pthread_create(&thread, NULL, burning, (void *)ns) == 0;
}

static void launch_behind(int which, int rounds, cl_event *written, cl_event *used)
{
    need(clSetKernelArg(kernel, 0, sizeof data[which], &data[which]), "clSetKernelArg");
    need(clSetKernelArg(kernel, 1, sizeof rounds, &rounds), "clSetKernelArg");
    need(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &group, written ? 1 : 0, written, used), "clEnqueueNDRangeKernel");
}

static void launch(int which, int rounds)
{
    launch_behind(which, rounds, NULL, NULL);
}

static void write_part(cl_command_queue where, int which, cl_bool blocking, size_t offset, size_t bytes)
{
    need(clEnqueueWriteBuffer(where, data[which], blocking, offset, bytes, host + offset, 0, NULL, NULL), "clEnqueueWriteBuffer");
}

static void finish(cl_command_queue which)
{
    need(clFinish(which), "clFinish");
}

static void flush(cl_command_queue which)
{
    need(clFlush(which), "clFlush");
}

static void copies(int k)
{
    (void)k;
    for (int p = 0; p < PIECES; p++) write_part(queue, 0, CL_TRUE, (size_t)p * PIECE, PIECE);
    launch(0, 30);
    finish(queue);
}

static void copies_one(int k)
{
    (void)k;
    write_part(queue, 0, CL_TRUE, 0, (size_t)PIECES * PIECE);
    launch(0, 30);
    finish(queue);
}

static void blocking_input(int rounds)
{
    write_part(queue, 0, CL_TRUE, 0, BYTES);
    launch(0, rounds);
    finish(queue);
}

static void input_ahead(int k, int rounds)
{
    if (k == 0) write_part(second, 0, CL_TRUE, 0, BYTES);
    else finish(second);
    launch(k % 2, rounds);
    flush(queue);
    if (k + 1 < iterations) write_part(second, (k + 1) % 2, CL_FALSE, 0, BYTES);
    flush(second);
    finish(queue);
}

static void buffer(int k) { (void)k, blocking_input(LONG_ROUNDS); }
static void buffer_two(int k) { input_ahead(k, LONG_ROUNDS); }
static void feed(int k) { (void)k, blocking_input(LONG_ROUNDS / 4); }
static void feed_two(int k) { input_ahead(k, LONG_ROUNDS / 4); }

static void wait_now(int k)
{
    (void)k;
    launch(0, LONG_ROUNDS);
    finish(queue);
    burn(HOST_NS);
}

static void wait_later(int k)
{
    (void)k;
    launch(0, LONG_ROUNDS);
    flush(queue);
    burn(HOST_NS);
    finish(queue);
}

static void host_beside(int k)
{
    static const int64_t ns = HOST_NS;
    (void)k;
    launch(0, LONG_ROUNDS);
    finish(queue);
    burn_beside(&ns);
}

static void short_host(int k)
{
    (void)k;
    launch(0, LONG_ROUNDS);
    finish(queue);
    burn(HOST_NS / 2);
}

static void short_beside(int k)
{
    static const int64_t ns = HOST_NS / 2;
    (void)k;
    launch(0, LONG_ROUNDS);
    finish(queue);
    burn_beside(&ns);
}

static void several(int count, int rounds)
{
    for (int p = 0; p < count; p++) launch(0, rounds);
    finish(queue);
}

static void kernels(int k) { (void)k, several(SHORTS, SHORT_ROUNDS); }
static void kernels_one(int k) { (void)k, several(1, SHORTS * SHORT_ROUNDS); }
static void long_kernels(int k) { (void)k, several(LONGS, LONG_ROUNDS / 3); }
static void long_one(int k) { (void)k, several(1, LONGS * LONG_ROUNDS / 3); }
static void tiny(int k) { (void)k, several(TINY, LONG_ROUNDS); }
static void tiny_one(int k) { (void)k, several(1, TINY * LONG_ROUNDS); }

static void waits(int k)
{
    (void)k;
    for (int p = 0; p < SHORTS; p++) {
        launch(0, SHORT_ROUNDS);
        finish(queue);
    }
}

static void one_queue(int k)
{
    write_part(queue, 0, CL_FALSE, 0, BYTES / 4);
    launch(0, LONG_ROUNDS);
    if (k % 5 == 4) finish(queue);
}

static void two_queues(int k)
{
    static cl_event used[2];
    cl_event written;
    cl_uint before = used[k % 2] ? 1 : 0;
    need(clEnqueueWriteBuffer(second, data[k % 2], CL_FALSE, 0, BYTES / 4, host, before, before ? &used[k % 2] : NULL, &written), "clEnqueueWriteBuffer");
    flush(second);
    if (before) clReleaseEvent(used[k % 2]);
    launch_behind(k % 2, LONG_ROUNDS, &written, &used[k % 2]);
    flush(queue);
    clReleaseEvent(written);
    if (k % 5 == 4) finish(queue);
}

static void alloc(int k)
{
    (void)k;
    cl_mem kept = data[0];
    data[0] = new_buffer(BYTES / 4);
    write_part(queue, 0, CL_TRUE, 0, BYTES / 4);
    launch(0, 30);
    finish(queue);
    need(clReleaseMemObject(data[0]), "clReleaseMemObject");
    data[0] = kept;
}

static void alloc_pool(int k)
{
    (void)k;
    write_part(queue, 0, CL_TRUE, 0, BYTES / 4);
    launch(0, 30);
    finish(queue);
}

static void early(int k)
{
    (void)k;
    launch(0, LONG_ROUNDS);
    finish(queue);
    burn(HOST_NS / 3);
    write_part(queue, 0, CL_TRUE, 0, (size_t)PIECES * PIECE);
}

static void early_later(int k)
{
    (void)k;
    launch(0, LONG_ROUNDS);
    flush(queue);
    burn(HOST_NS / 3);
    finish(queue);
    write_part(queue, 0, CL_TRUE, 0, (size_t)PIECES * PIECE);
}

static void loop(int k)
{
    (void)k;
    launch(0, 30);
    finish(queue);
    for (int i = 0; i < ITEMS; i++) {
        float x = numbers[i];
        for (int r = 0; r < LONG_ROUNDS / 3; r++) x = x * 0.999f + 0.5f;
        numbers[i] = x;
    }
}

static void loop_device(int k)
{
    (void)k;
    launch(0, 30);
    finish(queue);
    launch(1, LONG_ROUNDS / 3);
    finish(queue);
}

static void read_part(size_t offset, size_t bytes)
{
    need(clEnqueueReadBuffer(queue, data[0], CL_TRUE, offset, bytes, host + offset, 0, NULL, NULL), "clEnqueueReadBuffer");
}

static void reads(int k)
{
    (void)k;
    launch(0, 30);
    for (int p = 0; p < PIECES; p++) read_part((size_t)p * LITTLE, LITTLE);
}

static void reads_one(int k)
{
    (void)k;
    launch(0, 30);
    read_part(0, (size_t)PIECES * LITTLE);
}

static const struct {
    const char *name;
    void (*turn)(int);
} kinds[] = {
    {"copies", copies}, {"copies-one", copies_one}, {"buffer", buffer}, {"buffer-two", buffer_two}, {"wait", wait_now},
    {"wait-later", wait_later}, {"host", wait_now}, {"host-beside", host_beside}, {"kernels", kernels}, {"kernels-one", kernels_one},
    {"feed", feed}, {"feed-two", feed_two}, {"queue", one_queue}, {"queue-two", two_queues}, {"alloc", alloc}, {"alloc-pool", alloc_pool},
    {"early", early}, {"early-later", early_later}, {"short", short_host}, {"short-beside", short_beside}, {"loop", loop},
    {"loop-device", loop_device}, {"long", long_kernels}, {"long-one", long_one}, {"tiny", tiny}, {"tiny-one", tiny_one}, {"reads", reads},
    {"reads-one", reads_one}, {"waits", waits}, {"waits-one", kernels},
};

int main(int count, char **words)
{
    const char *kind = count > 1 ? words[1] : "";
    void (*turn)(int) = NULL;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (strcmp(kind, kinds[k].name) == 0) turn = kinds[k].turn;
    if (!turn) {
        fprintf(stderr, "pairs: no such kind\n");
        return 2;
    }
    iterations = count > 2 ? atoi(words[2]) : 100;
    memset(host, 1, sizeof host);
    /* one group is the work of one processor: another is left for the copy */
    if (turn == buffer || turn == buffer_two || turn == feed || turn == feed_two || turn == one_queue || turn == two_queues) group = ITEMS;
    if (turn == tiny || turn == tiny_one) items = GROUP;
    open_device();
    queue = new_queue();
    second = new_queue();
    for (int k = 0; k < 2; k++) {
        data[k] = new_buffer(BYTES);
        write_part(queue, k, CL_TRUE, 0, BYTES);
        launch(k, LONG_ROUNDS);
        finish(queue);
    }
    /* sizes that show the link's fixed cost and its bandwidth */
    for (int k = 0; k < 12; k++) write_part(queue, 0, CL_TRUE, 0, (size_t)PIECE << (k % 6));

    int64_t begin = now();
    for (int k = 0; k < iterations; k++) turn(k);
    if (running) pthread_join(thread, NULL);
    int64_t end = now();
    finish(queue);
    finish(second);
    say_loop(begin, end);
    return 0;
}
