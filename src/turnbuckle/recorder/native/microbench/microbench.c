/* microbench.c - measures one host and its first CUDA device.  Needs a C compiler and the driver, nothing of the toolkit.
 *
 *     microbench SECTION [quick=1] [seconds=N] [max=BYTES]         microbench list | ptx
 *
 * Prints one JSON object a section: {"section", "args", "machine", "unit", "wall_s", "rows"}; times are ns, each a sample of many
 * repetitions with its quantiles.  Nothing on the device is set: no clocks, no power, no modes.
 *
 * cc -O2 -std=gnu11 microbench.c -o microbench -ldl -lpthread -lm
 */
#define _GNU_SOURCE
#include "driver.h"
#include "kernels.h"
#include "kit.h"
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

enum { SPIN_CYCLES = 600000 };
static const size_t MiB = 1 << 20;
static bool quick;
static CUmodule module;
static size_t free_bytes;

/* The size wanted, or as much less that so many arrays of it take no more than half of what is free on the device and on the host. */
static size_t within(size_t wanted, size_t on_device, size_t on_host)
{
    size_t host = free_host();
    while (wanted > MiB && ((on_device && wanted > free_bytes / (2 * on_device)) || (on_host && wanted > host / (2 * on_host)))) wanted /= 2;
    return wanted;
}

static CUfunction kernel(const char *name)
{
    CUfunction f;
    CHECK(moduleGetFunction(&f, module, name));
    return f;
}
static void launch(CUfunction f, unsigned blocks, unsigned threads, CUstream s, void **values)
{
    CHECK(launchKernel(f, blocks, 1, 1, threads, 1, 1, 0, s, values, NULL));
}
static void spin(CUstream s, unsigned long long cycles)
{
    static CUfunction f;
    void *values[] = { &cycles };
    if (!f) f = kernel("tb_spin");
    launch(f, 1, 1, s, values);
}
static CUstream stream(void) { CUstream s; CHECK(streamCreate(&s, STREAM_NON_BLOCKING)); return s; }
static CUevent event(void) { CUevent e; CHECK(eventCreate(&e, EVENT_DEFAULT)); return e; }
static CUdeviceptr device(size_t n) { CUdeviceptr p; CHECK(memAlloc(&p, n)); return p; }
static void *pinned(size_t n) { void *p; CHECK(memHostAlloc(&p, n, HOST_MAPPED)); memset(p, 1, n); return p; }
static void *pageable(size_t n)
{
    void *p = malloc(n);
    if (!p) { fprintf(stderr, "out of host memory\n"); exit(EXIT_FAILED); }
    return memset(p, 1, n);
}
static double between(CUevent a, CUevent b) { float ms; CHECK(eventElapsed(&ms, a, b)); return (double)ms * 1e6; }
static volatile unsigned *flag_of(CUdeviceptr *seen_by_device)
{
    void *p = pinned(4096);
    memset(p, 0, 4096);
    CHECK(memHostDevice(seen_by_device, p, 0));
    return p;
}

/* ------------------------------------------------------------ copies */
typedef struct { const char *dir, *mem; void *host; CUdeviceptr one, two; } Way;
static void copy_async(const Way *w, size_t n, CUstream s)
{
    if (!strcmp(w->dir, "h2d")) CHECK(copyHtoDAsync(w->one, w->host, n, s));
    else if (!strcmp(w->dir, "d2h")) CHECK(copyDtoHAsync(w->host, w->one, n, s));
    else CHECK(copyDtoDAsync(w->two, w->one, n, s));
}
static void copy_now(const Way *w, size_t n)
{
    if (!strcmp(w->dir, "h2d")) CHECK(copyHtoD(w->one, w->host, n));
    else if (!strcmp(w->dir, "d2h")) CHECK(copyDtoH(w->host, w->one, n));
    else CHECK(copyDtoD(w->two, w->one, n));
}

static void section_copy(void)
{
    size_t most = within((size_t)argument("max", quick ? 64.0 * MiB : 1024.0 * MiB, 1048576.0 * MiB), 2, 2);
    void *pin = pinned(most), *page = pageable(most);
    CUdeviceptr d = device(most), d2 = device(most);
    CUstream s = stream();
    CUevent e0 = event(), e1 = event();
    Sample call = { 0 }, done = { 0 }, ev = { 0 };
    CHECK(memsetD8(d, 1, most));
    Way ways[] = { { "h2d", "pinned", pin, d, 0 }, { "d2h", "pinned", pin, d, 0 }, { "h2d", "pageable", page, d, 0 },
                   { "d2h", "pageable", page, d, 0 }, { "d2d", "device", NULL, d, d2 } };
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++)
        for (size_t n = 1; n <= most; n *= quick && n != 64 ? (n == 128 ? 8 : 4) : 2) {
            const Way *w = &ways[k];
            if (skipped()) return;
            for (int i = 0; i < 3; i++) copy_async(w, n, s);
            CHECK(streamSynchronize(s));
            for (REPEAT(25, 3, 400)) {
                int64_t t = now_ns();
                copy_now(w, n);
                int64_t u = now_ns();
                CHECK(ctxSynchronize());
                add(&call, (double)(u - t)), add(&done, (double)(now_ns() - t));
            }
            ROW("\"dir\": \"%s\", \"mem\": \"%s\", \"bytes\": %zu, \"call\": \"sync\"", w->dir, w->mem, n);
            stat("call", &call), stat("done", &done), row_end();
            for (REPEAT(25, 3, 400)) {
                int64_t t = now_ns();
                copy_async(w, n, s);
                int64_t u = now_ns();
                CHECK(streamSynchronize(s));
                add(&call, (double)(u - t)), add(&done, (double)(now_ns() - t));
            }
            for (REPEAT(25, 3, 400)) {
                CHECK(eventRecord(e0, s));
                copy_async(w, n, s);
                CHECK(eventRecord(e1, s));
                CHECK(eventSynchronize(e1));
                add(&ev, between(e0, e1));
            }
            /* "call" names how it was called; its time is under "call_time", beside the key that readers of the kit know */
            ROW("\"dir\": \"%s\", \"mem\": \"%s\", \"bytes\": %zu, \"call\": \"async\"", w->dir, w->mem, n);
            stat("call_time", &call), stat("done", &done), stat("event", &ev), row_end();
        }
}

/* Behind a kernel that keeps the device busy while they are issued, copies follow each other without the host. */
static void section_gap(void)
{
    size_t most = within(64 * MiB, 2, 2);
    char *pin = pinned(most), *pin2 = pinned(most);
    CUdeviceptr d = device(most), d2 = device(most);
    CUstream s = stream(), r = stream();
    CUevent e0 = event(), e1 = event(), f1 = event();
    Sample ev = { 0 }, issue = { 0 }, host = { 0 };
    static const size_t sizes[] = { 1, 64, 1024, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20 };
    static const int counts[] = { 1, 2, 4, 8, 16, 32, 64, 128 };
    /* two events behind a busy kernel with nothing between them: what they add to what they enclose */
    for (REPEAT(12, 5, 60)) {
        spin(s, SPIN_CYCLES);
        CHECK(eventRecord(e0, s));
        CHECK(eventRecord(e1, s));
        CHECK(streamSynchronize(s));
        add(&ev, between(e0, e1));
    }
    ROW("\"case\": \"nothing_between\""), stat("event_total", &ev), row_end();
    for (int dir = 0; dir < 2; dir++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (size_t j = 0; j < sizeof counts / sizeof *counts; j += quick ? 3 : 1) {
                Way w = { dir ? "d2h" : "h2d", "pinned", pin, d, 0 };
                int count = counts[j];
                if (skipped()) return;
                for (REPEAT(12, 5, 60)) {
                    spin(s, (unsigned long long)SPIN_CYCLES + 6000ull * (unsigned)count);
                    CHECK(eventRecord(e0, s));
                    int64_t a = now_ns();
                    for (int k = 0; k < count; k++) copy_async(&w, sizes[i], s);
                    int64_t b = now_ns();
                    CHECK(eventRecord(e1, s));
                    CHECK(streamSynchronize(s));
                    add(&ev, between(e0, e1)), add(&issue, (double)(b - a) / count), add(&host, (double)(now_ns() - a));
                }
                ROW("\"case\": \"back_to_back\", \"dir\": \"%s\", \"bytes\": %zu, \"count\": %d", w.dir, sizes[i], count);
                stat("event_total", &ev), stat("issue_per_call", &issue), stat("host_total", &host), row_end();
            }
    for (size_t n = 1 << 16; n <= most; n *= 4) {
        Way in = { "h2d", "pinned", pin, d, 0 }, out = { "d2h", "pinned", pin2, d2, 0 };
        if (skipped()) return;
        for (REPEAT(200, 5, 100)) {
            CHECK(eventRecord(e0, s));
            CHECK(streamWaitEvent(r, e0, 0));
            for (int i = 0; i < 4; i++) copy_async(&in, n, s), copy_async(&out, n, r);
            CHECK(eventRecord(e1, s));
            CHECK(eventRecord(f1, r));
            CHECK(ctxSynchronize());
            double one = between(e0, e1), other = between(e0, f1);
            add(&ev, (one > other ? one : other) / 4);
        }
        ROW("\"case\": \"both_directions\", \"bytes\": %zu", n);
        stat("event_per_pair", &ev), row_end();
    }
}

/* Where copies of pageable memory change how they are done. */
static void section_threshold(void)
{
    size_t most = 4 * MiB;
    CUdeviceptr d = device(most);
    void *page = pageable(most);
    Sample call = { 0 }, done = { 0 };
    CHECK(memsetD8(d, 1, most));
    for (int dir = 0; dir < 2; dir++)
        for (int async = 1; async >= (quick ? 1 : 0); async--)
            for (size_t n = 4096; n <= most; n += n < 131072 ? 4096 : n < MiB ? (quick ? 65536 : 16384) : (quick ? 1048576 : 131072)) {
                Way w = { dir ? "d2h" : "h2d", "pageable", page, d, 0 };
                if (skipped()) return;
                copy_now(&w, n);
                for (REPEAT(12, 5, 200)) {
                    int64_t t = now_ns();
                    if (async) copy_async(&w, n, NULL);
                    else copy_now(&w, n);
                    int64_t u = now_ns();
                    CHECK(ctxSynchronize());
                    add(&call, (double)(u - t)), add(&done, (double)(now_ns() - t));
                }
                ROW("\"dir\": \"%s\", \"mem\": \"pageable\", \"call\": \"%s\", \"bytes\": %zu", w.dir, async ? "async" : "sync", n);
                stat("call_time", &call), stat("done", &done), row_end();
            }
    free(page);
}

/* ------------------------------------------------------------ launches */
static void graphs(CUstream s, CUfunction empty)
{
    Sample call = { 0 }, round = { 0 };
    if (!cu.beginCapture || !cu.endCapture || !cu.graphInstantiate || !cu.graphLaunch || !cu.graphExecDestroy || !cu.graphDestroy) return;
    for (int m = 1; m <= 100; m *= 10) {
        CUgraph g;
        CUgraphExec e;
        if (skipped()) return;
        CHECK(beginCapture(s, CAPTURE_THREAD_LOCAL));
        for (int i = 0; i < m; i++) launch(empty, 1, 1, s, NULL);
        CHECK(endCapture(s, &g));
        int64_t before = now_ns();
        CHECK(graphInstantiate(&e, g, 0));
        int64_t made = now_ns() - before;
        CHECK(graphLaunch(e, s));
        CHECK(streamSynchronize(s));
        for (REPEAT(200, 50, 2000)) {
            int64_t t = now_ns();
            CHECK(graphLaunch(e, s));
            int64_t u = now_ns();
            CHECK(streamSynchronize(s));
            add(&call, (double)(u - t)), add(&round, (double)(now_ns() - t));
        }
        ROW("\"case\": \"graph\", \"kernels\": %d, \"instantiate\": %lld", m, (long long)made);
        stat("call", &call), stat("round_trip", &round), row_end();
        CHECK(graphExecDestroy(e));
        CHECK(graphDestroy(g));
    }
}

/* A kernel that runs answers flags of the host: a flag there and one back. */
static void pingpong(CUstream s)
{
    Sample trip = { 0 };
    CUdeviceptr there, back;
    volatile unsigned *to = flag_of(&there), *from = flag_of(&back);
    unsigned count = quick ? 200 : 2000;
    unsigned long long limit = 1000000000ull;
    void *values[] = { &there, &back, &count, &limit };
    launch(kernel("tb_pingpong"), 1, 1, s, values);
    for (unsigned k = 1; k <= count; k++) {
        int64_t t = now_ns(), end = t + 500000000;
        *to = k;
        while (*from != k && now_ns() < end) { }
        if (*from != k) break;
        if (k > 20) add(&trip, (double)(now_ns() - t));
    }
    CHECK(streamSynchronize(s));
    ROW("\"case\": \"flag_round_trip\"");
    stat("round_trip", &trip), row_end();
}

static void section_launch(void)
{
    CUstream s = stream();
    CUevent e0 = event(), e1 = event();
    CUfunction empty = kernel("tb_empty"), flagged = kernel("tb_flag");
    Sample call = { 0 }, round = { 0 }, issue = { 0 };
    int sm = 1;
    CHECK(deviceAttribute(&sm, ATTR_SM_COUNT, 0));
    for (int i = 0; i < 100; i++) launch(empty, 1, 1, s, NULL);
    CHECK(ctxSynchronize());
    for (int full = 0; full < 2; full++) {
        const char *name = full ? "empty_0B_full_grid" : "empty_0B";
        unsigned blocks = full ? (unsigned)sm * 16 : 1, threads = full ? 128 : 1;
        for (REPEAT(300, 200, 5000)) {
            int64_t t = now_ns();
            launch(empty, blocks, threads, s, NULL);
            int64_t u = now_ns();
            CHECK(streamSynchronize(s));
            add(&call, (double)(u - t)), add(&round, (double)(now_ns() - t));
        }
        ROW("\"case\": \"queue_empty\", \"kernel\": \"%s\"", name);
        stat("call", &call), stat("round_trip", &round), row_end();
        for (REPEAT(300, 100, 1000)) {
            spin(s, 300000);
            int64_t t = now_ns();
            launch(empty, blocks, threads, s, NULL);
            add(&call, (double)(now_ns() - t));
            CHECK(streamSynchronize(s));
        }
        ROW("\"case\": \"queue_busy\", \"kernel\": \"%s\"", name);
        stat("call", &call), row_end();
        for (int n = 100; n <= 1000; n *= 10) {
            if (skipped()) return;
            for (REPEAT(300, 10, 200)) {
                int64_t t = now_ns();
                for (int i = 0; i < n; i++) launch(empty, blocks, threads, s, NULL);
                int64_t u = now_ns();
                CHECK(streamSynchronize(s));
                add(&issue, (double)(u - t) / n), add(&round, (double)(now_ns() - t) / n);
            }
            ROW("\"case\": \"back_to_back\", \"kernel\": \"%s\", \"count\": %d", name, n);
            stat("per_kernel", &round), stat("issue_per_call", &issue), row_end();
        }
    }
    for (REPEAT(400, 20, 200)) {
        spin(s, 3000000);
        CHECK(eventRecord(e0, s));
        for (int i = 0; i < 200; i++) launch(empty, 1, 1, s, NULL);
        CHECK(eventRecord(e1, s));
        CHECK(streamSynchronize(s));
        add(&call, between(e0, e1) / 200);
    }
    ROW("\"case\": \"queued_device_period\", \"kernel\": \"empty_0B\", \"count\": 200");
    stat("per_kernel", &call), row_end();
    CUdeviceptr seen_by_device;
    volatile unsigned *flag = flag_of(&seen_by_device);
    unsigned value = 0;
    for (int64_t pause = 0; pause <= 1000000; pause = pause ? pause * 50 : 20000) {
        unsigned long long none = 0;
        int missed = 0;
        void *values[] = { &none, &seen_by_device, &value };
        if (skipped()) return;
        for (REPEAT(400, 100, 3000)) {
            spin_ns(pause);
            value++;
            int64_t t = now_ns(), end = t + 100000000;
            launch(flagged, 1, 1, s, values);
            while (*flag != value && now_ns() < end) { }
            int64_t u = now_ns();
            bool seen = *flag == value;
            CHECK(streamSynchronize(s));
            if (seen) add(&call, (double)(u - t));
            else if (++missed > 3) break;
        }
        ROW("\"case\": \"launch_to_flag\", \"pause_ns\": %lld, \"not_seen\": %d", (long long)pause, missed);
        stat("seen", &call), row_end();
    }
    if (skipped()) return;
    pingpong(s);
    graphs(s, empty);
}

/* ------------------------------------------------------------ waits and events */
static void section_sync(void)
{
    CUstream s = stream();
    CUevent e;
    CUdeviceptr seen_by_device;
    Sample call = { 0 };
    volatile unsigned *flag = flag_of(&seen_by_device);
    CUfunction flagged = kernel("tb_flag");
    CHECK(eventCreate(&e, EVENT_DISABLE_TIMING));
    launch(kernel("tb_empty"), 1, 1, s, NULL);
    CHECK(eventRecord(e, s));
    CHECK(ctxSynchronize());
    static const char *const names[] = { "cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize" };
    for (int k = 0; k < 3; k++) {
        for (REPEAT(100, 500, 5000)) {
            int64_t t = now_ns();
            if (k == 0) CHECK(ctxSynchronize());
            else if (k == 1) CHECK(streamSynchronize(s));
            else CHECK(eventSynchronize(e));
            add(&call, (double)(now_ns() - t));
        }
        ROW("\"case\": \"idle\", \"call_name\": \"%s\"", names[k]);
        stat("call", &call), row_end();
    }
    /* The same kernel twice: once the host watches its flag, once it waits in a call.  How much later the call returns than
     * the flag would have been seen is the difference of the two, both counted from the launch. */
    unsigned value = 0;
    for (unsigned long long ns = 5000; ns <= 5000000; ns *= 10)
        for (int k = 0; k < 3; k++) {
            void *values[] = { &ns, &seen_by_device, &value };
            Sample watched = { 0 }, waited = { 0 };
            if (skipped()) return;
            for (REPEAT(300, 40, 400)) {
                for (int how = 0; how < 2; how++) {
                    value++;
                    int64_t t = now_ns(), end = t + 100000000 + (int64_t)ns;
                    launch(flagged, 1, 1, s, values);
                    if (k == 2) CHECK(eventRecord(e, s));
                    if (how == 0) while (*flag != value && now_ns() < end) { }
                    else if (k == 0) CHECK(ctxSynchronize());
                    else if (k == 1) CHECK(streamSynchronize(s));
                    else CHECK(eventSynchronize(e));
                    int64_t u = now_ns();
                    if (*flag == value) add(how ? &waited : &watched, (double)(u - t));
                    CHECK(ctxSynchronize());
                }
            }
            if (!watched.n || !waited.n) continue;
            qsort(watched.v, (size_t)watched.n, sizeof(double), ascending);
            double seen = quantile(&watched, .5);
            for (int i = 0; i < waited.n; i++) add(&call, waited.v[i] - seen);
            ROW("\"case\": \"flag_seen_to_return\", \"call_name\": \"%s\", \"kernel_ns\": %llu, \"blocking\": 0", names[k], ns);
            stat("latency", &call), row_end();
            free(watched.v), free(waited.v);
        }
}

static void section_event(void)
{
    CUstream s = stream(), r = stream();
    CUevent e0 = event(), e1 = event(), hops[64];
    CUfunction empty = kernel("tb_empty");
    Sample call = { 0 };
    for (int i = 0; i < 64; i++) CHECK(eventCreate(&hops[i], EVENT_DISABLE_TIMING));
    for (REPEAT(150, 300, 3000)) {
        int64_t t = now_ns();
        CHECK(eventRecord(e0, s));
        add(&call, (double)(now_ns() - t));
        CHECK(ctxSynchronize());
    }
    ROW("\"case\": \"call\", \"call_name\": \"cuEventRecord_timing\"");
    stat("call", &call), row_end();
    for (int kernel_between = 0; kernel_between < 2; kernel_between++) {
        for (REPEAT(150, 300, 3000)) {
            CHECK(eventRecord(e0, s));
            if (kernel_between) launch(empty, 1, 1, s, NULL);
            CHECK(eventRecord(e1, s));
            CHECK(eventSynchronize(e1));
            add(&call, between(e0, e1));
        }
        ROW("\"case\": \"%s\"", kernel_between ? "empty_kernel_elapsed" : "two_records_elapsed");
        stat("event", &call), row_end();
    }
    for (int cross = 0; cross < 2; cross++) {
        if (skipped()) return;
        for (REPEAT(300, 20, 200)) {
            spin(s, 2000000);
            CHECK(eventRecord(e0, s));
            for (int i = 0; i < 64; i++) {
                CUstream from = cross && i % 2 ? r : s, to = cross && !(i % 2) ? r : s;
                launch(empty, 1, 1, from, NULL);
                CHECK(eventRecord(hops[i], from));
                CHECK(streamWaitEvent(to, hops[i], 0));
            }
            CHECK(eventRecord(e1, s));
            CHECK(ctxSynchronize());
            add(&call, between(e0, e1) / 64);
        }
        ROW("\"case\": \"%s\", \"hops\": 64", cross ? "event_hop_between_streams" : "event_hop_same_stream");
        stat("per_hop", &call), row_end();
    }
}

/* ------------------------------------------------------------ allocation */
static void section_alloc(void)
{
    Sample get = { 0 }, release = { 0 };
    size_t most = quick ? 64 * MiB : 1024 * MiB;
    for (size_t n = 1024; n <= most && n < free_bytes / 4; n *= 4) {
        CUdeviceptr p;
        void *h;
        if (skipped()) return;
        for (REPEAT(100, 5, 200)) {
            int64_t t = now_ns();
            CHECK(memAlloc(&p, n));
            int64_t u = now_ns();
            CHECK(memFree(p));
            add(&get, (double)(u - t)), add(&release, (double)(now_ns() - u));
        }
        ROW("\"case\": \"cuMemAlloc\", \"bytes\": %zu", n);
        stat("get", &get), stat("release", &release), row_end();
        if (n > 256 * MiB) continue;
        for (REPEAT(100, 3, 100)) {
            int64_t t = now_ns();
            CHECK(memHostAlloc(&h, n, 0));
            int64_t u = now_ns();
            CHECK(memFreeHost(h));
            add(&get, (double)(u - t)), add(&release, (double)(now_ns() - u));
        }
        ROW("\"case\": \"cuMemHostAlloc\", \"bytes\": %zu", n);
        stat("get", &get), stat("release", &release), row_end();
        h = aligned_alloc(4096, n < 4096 ? 4096 : n);
        if (!h) continue;
        memset(h, 1, n);
        for (REPEAT(100, 3, 100)) {
            int64_t t = now_ns();
            CHECK(memHostRegister(h, n, 0));
            int64_t u = now_ns();
            CHECK(memHostUnregister(h));
            add(&get, (double)(u - t)), add(&release, (double)(now_ns() - u));
        }
        ROW("\"case\": \"cuMemHostRegister\", \"bytes\": %zu", n);
        stat("get", &get), stat("release", &release), row_end();
        free(h);
    }
}

#include "device.h"
#include "slack.h"

static const struct { const char *name; void (*run)(void); bool needs_device; const char *what; } sections[] = {
    { "host", section_host, false, "cores, an interpreter's loop, STREAM triad by threads" },
    { "launch", section_launch, true, "launch call, round trip, back to back, launch to flag, graphs" },
    { "sync", section_sync, true, "waits on an idle device, and how long they outlast the work" },
    { "event", section_event, true, "records, hand-over between streams" },
    { "copy", section_copy, true, "all sizes, directions, memories" },
    { "gap", section_gap, true, "copies behind each other, both directions" },
    { "threshold", section_threshold, true, "pageable copies, 4 KiB to 4 MiB" },
    { "alloc", section_alloc, true, "device memory, pinned memory, pinning" },
    { "concurrent", section_concurrent, true, "kernels side by side" },
    { "contention", section_contention, true, "copies beside kernels" },
    { "device", section_device, true, "memory bandwidth, FMA rates, latency of loads" },
    { "peer", section_peer, true, "copies from the first device to the second" },
    { "slack", section_slack, true, "the slack proxy: size of matrices x threads x delay of every call" },
    { "managed", section_managed, true, "unified memory moved by page faults (32 MiB)" },
};

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "ptx")) return puts(kernels_ptx()) < 0;
    if (argc < 2 || !strcmp(argv[1], "list")) {
        for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) printf("%-12s %s\n", sections[i].name, sections[i].what);
        return argc < 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* who asked is gone: nobody reads the answer */
    argument_count = argc - 2, arguments = argv + 2;
    quick = argument("quick", 0, 1) > 0;
    if (quick) effort = 0.2;
    int64_t begun = real_ns();
    double seconds = argument("seconds", 0, 1e6);
    if (seconds > 0) deadline_ns = begun + (int64_t)(seconds * 1e9);
    put("%s", "");
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (!strcmp(argv[1], sections[i].name)) {
            char machine[1024] = "null";
            if (sections[i].needs_device) device_begin(machine, sizeof machine);
            sections[i].run();
            if (sections[i].needs_device) CHECK(ctxSynchronize());
            printf("{\"section\": \"%s\", \"args\": {\"quick\": \"%d\"}, \"machine\": %s, \"unit\": \"ns\", \"wall_s\": %.3f, \"rows\": [%s]}\n",
                   argv[1], quick, machine, (double)(real_ns() - begun) * 1e-9, text);
            return 0;
        }
    if (!strcmp(argv[1], "probe")) {
        char machine[1024];
        device_begin(machine, sizeof machine);
        printf("{\"section\": \"probe\", \"machine\": %s, \"rows\": []}\n", machine);
        return 0;
    }
    fprintf(stderr, "unknown section (microbench list)\n");
    return EXIT_USAGE;
}
