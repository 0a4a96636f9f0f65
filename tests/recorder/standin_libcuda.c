/* A driver for tests: behaves like a host and a device whose costs are planted, on a clock of its own.
 *
 * Every call moves the host's clock by what it is planted to cost; streams, two copy engines and a number of places for kernels move
 * the device's.  Planted numbers come from the environment (TB_STANDIN_NAME, in ns, bytes or bytes a microsecond), each within
 * TB_STANDIN_JITTER of itself at every use.  The clock is exported as tb_standin_now_ns, where the measuring program looks for it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long Pointer;
typedef struct { int64_t until; } Stream;
typedef struct { int64_t at; } Event;
typedef struct { const char *name; } Function;

static int64_t host; /* the clock [ns] */
static uint64_t seed = 42;

static double planted(const char *name, double otherwise)
{
    char variable[64];
    snprintf(variable, sizeof variable, "TB_STANDIN_%s", name);
    const char *given = getenv(variable);
    return given && *given ? atof(given) : otherwise;
}
/* the planted number at one use: between 1 - jitter and 1 + jitter of it */
static double near(double value)
{
    static double jitter = -1;
    if (jitter < 0) jitter = planted("JITTER", 0.02);
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return value * (1 + jitter * ((double)(seed >> 40) / (1 << 23) - 1));
}
#define PLANT(name, otherwise)                              \
    static double name##_value(void)                        \
    {                                                       \
        static double value = -1;                           \
        if (value < 0) value = planted(#name, otherwise);   \
        return value;                                       \
    }                                                       \
    static int64_t name(void) { return (int64_t)near(name##_value()); }
PLANT(LAUNCH_CALL, 2100)    /* a launch call */
PLANT(LAUNCH_LATENCY, 3300) /* begin of that call to begin of the kernel, queue empty */
PLANT(KERNEL, 700)          /* an empty kernel */
PLANT(KERNEL_GAP, 400)      /* between two kernels of a stream */
PLANT(FLIGHT, 450)          /* a store on its way over the link */
PLANT(SYNC_RETURN, 1500)    /* end of the work to return of the wait */
PLANT(SYNC_IDLE, 900)       /* a wait for nothing */
PLANT(EVENT_CALL, 600)
PLANT(EVENT_DEVICE, 0) /* an event on the device */
PLANT(COPY_CALL, 1400)
PLANT(COPY_SUBMIT, 1800) /* begin of a copy call to begin of the copy */
PLANT(COPY_GAP, 350)     /* between two copies of an engine: beyond o + L */
PLANT(H2D_LATENCY, 1300)
PLANT(D2H_LATENCY, 1600)
PLANT(PAGEABLE_LATENCY, 4000)
PLANT(PEER_LATENCY, 2600)
PLANT(ALLOC, 80000)
static double rate_of(const char *name, double otherwise) { return planted(name, otherwise) * 1e-3; } /* bytes a us -> bytes a ns */

/* stores of kernels that the host will see when its clock has come so far */
typedef struct { int64_t at; volatile unsigned *place; unsigned value; } Store;
static Store stores[4096];
static int store_count;
/* a kernel that answers flags: what it watches, where it answers, how far it is */
static struct { volatile unsigned *from, *to; unsigned next, count; int64_t began; } ping;

static void deliver(void)
{
    int kept = 0;
    for (int i = 0; i < store_count; i++)
        if (stores[i].at <= host) *stores[i].place = stores[i].value;
        else stores[kept++] = stores[i];
    store_count = kept;
}
static void store(int64_t at, Pointer place, unsigned value)
{
    if (store_count < 4096) stores[store_count++] = (Store){ at, (volatile unsigned *)(uintptr_t)place, value };
}
int64_t tb_standin_now_ns(void)
{
    host += 20;
    if (ping.count && ping.next <= ping.count && *ping.from == ping.next) {
        store(host + 2 * FLIGHT(), (Pointer)(uintptr_t)ping.to, ping.next);
        ping.next++;
    }
    deliver();
    return host;
}

static Stream null_stream;
static Stream *streams[512];
static int stream_count;
static int64_t engine[2], place_until[256], heavy_until;
static int places;

static Stream *of(Stream *s) { return s ? s : &null_stream; }
static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

int cuInit(unsigned flags)
{
    (void)flags;
    places = (int)planted("CONCURRENCY", 32);
    return (int)planted("INIT", 0);
}
int cuDriverGetVersion(int *v) { return *v = 12040, 0; }
int cuDeviceGetCount(int *n) { return *n = (int)planted("DEVICES", 1), 0; }
int cuDeviceGet(int *d, int n) { return *d = n, 0; }
int cuDeviceGetName(char *name, int room, int d) { (void)d; return snprintf(name, (size_t)room, "Stand-in \"GPU\""), 0; }
int cuDeviceTotalMem_v2(size_t *n, int d) { (void)d; return *n = 16ull << 30, 0; }
int cuDeviceGetAttribute(int *v, int which, int d)
{
    (void)d;
    *v = which == 16 ? 108 : which == 75 ? 8 : which == 13 ? 1500000 : which == 36 ? 1215000 : which == 37 ? 5120 : which == 40 ? 2 : which == 83 ? 1 : 0;
    return 0;
}
int cuDevicePrimaryCtxRetain(void **c, int d) { (void)d; return *c = &host, 0; }
int cuCtxSetCurrent(void *c) { (void)c; return 0; }
static double taken; /* device memory [bytes] */
static double most_memory(void) { return planted("FREE", (double)(16ull << 30)); }
int cuMemGetInfo_v2(size_t *available, size_t *all) { return *available = *all = (size_t)most_memory(), 0; }
int cuModuleLoadData(void **m, const void *image) { return *m = (void *)image, strstr(image, ".entry tb_empty") ? 0 : 218; }
int cuModuleGetFunction(Function **f, void *m, const char *name)
{
    char wanted[80];
    snprintf(wanted, sizeof wanted, ".entry %s(", name);
    if (!strstr(m, wanted)) return 500;
    *f = malloc(sizeof **f);
    (*f)->name = strdup(name);
    return 0;
}

/* memory: what is small is there, what is large is an address only */
static Pointer small_at[4096];
static size_t small_size[4096];
static int small_count;
static Pointer next_large = 0x700000000000ull;
int cuMemAlloc_v2(Pointer *p, size_t n)
{
    host += ALLOC();
    if (n > 4096 && (taken += (double)n) > most_memory()) return 2;
    if (n > 4096) return *p = next_large, next_large += (n + 4095) & ~4095ull, 0;
    *p = (Pointer)(uintptr_t)calloc(1, n);
    if (small_count < 4096) small_at[small_count] = *p, small_size[small_count++] = n;
    return 0;
}
/* unified memory: there for the host; a kernel that reads it waits for its pages */
static Pointer managed_at, managed_end;
int cuMemAllocManaged(Pointer *p, size_t n, unsigned flags)
{
    (void)flags;
    host += ALLOC();
    *p = managed_at = (Pointer)(uintptr_t)malloc(n), managed_end = managed_at + n;
    return managed_at ? 0 : 2;
}
static int is_small(Pointer p)
{
    for (int i = 0; i < small_count; i++)
        if (p >= small_at[i] && p < small_at[i] + small_size[i]) return i + 1;
    return 0;
}
int cuMemFree_v2(Pointer p)
{
    int i = is_small(p);
    host += ALLOC();
    if (managed_at && p == managed_at) free((void *)(uintptr_t)p), managed_at = managed_end = 0;
    if (i) free((void *)(uintptr_t)p), small_at[i - 1] = small_at[--small_count], small_size[i - 1] = small_size[small_count];
    return 0;
}
static struct { char *at; size_t n; } pins[256];
static int pin_count;
int cuMemHostAlloc(void **p, size_t n, unsigned flags)
{
    (void)flags;
    host += ALLOC();
    *p = malloc(n);
    if (pin_count < 256) pins[pin_count].at = *p, pins[pin_count++].n = n;
    return *p ? 0 : 2;
}
static int is_pinned(const void *p)
{
    for (int i = 0; i < pin_count; i++)
        if ((const char *)p >= pins[i].at && (const char *)p < pins[i].at + pins[i].n) return i + 1;
    return 0;
}
int cuMemFreeHost(void *p)
{
    int i = is_pinned(p);
    host += ALLOC();
    if (i) pins[i - 1] = pins[--pin_count];
    free(p);
    return 0;
}
int cuMemHostGetDevicePointer_v2(Pointer *d, void *p, unsigned flags) { (void)flags; return *d = (Pointer)(uintptr_t)p, 0; }
int cuMemHostRegister_v2(void *p, size_t n, unsigned flags) { (void)p, (void)n, (void)flags; return host += ALLOC(), 0; }
int cuMemHostUnregister(void *p) { (void)p; return host += ALLOC(), 0; }
int cuMemsetD8_v2(Pointer p, unsigned char v, size_t n) { (void)p, (void)v, (void)n; return host += 5000, 0; }
int cuMemsetD8Async(Pointer p, unsigned char v, size_t n, Stream *s) { (void)p, (void)v, (void)n, (void)s; return host += 2000, 0; }

/* copies: T(n) = o + L + n / rate on the engine of their direction */
enum { IN, OUT, INSIDE };
static void copy(int way, const void *memory, size_t n, Stream *s)
{
    int64_t begun = host, *own = way == INSIDE ? NULL : &engine[way];
    int staged = way != INSIDE && !is_pinned(memory);
    double rate = way == INSIDE ? rate_of("D2D_RATE", 600000) : way == IN ? rate_of("H2D_RATE", 24000) : rate_of("D2H_RATE", 26000);
    int64_t fixed = way == INSIDE ? near(1000) : staged ? PAGEABLE_LATENCY() : way == IN ? H2D_LATENCY() : D2H_LATENCY();
    int64_t start = later(begun + COPY_SUBMIT(), of(s)->until);
    if (own) start = later(start, *own > start - (int64_t)COPY_GAP_value() ? *own + COPY_GAP() : 0);
    if (staged) rate = rate_of("PAGEABLE_RATE", 9000);
    else if (own && engine[!way] > start) rate *= planted("BOTH_SHARE", 0.8);
    if (own && heavy_until > start) rate *= planted("BESIDE_KERNELS", 0.9);
    int64_t end = start + fixed + (int64_t)near((double)n / rate);
    of(s)->until = end;
    if (own) *own = end;
    host = begun + COPY_CALL();
    /* pageable memory: up to a size it is taken over at once, beyond the call lasts as long as the copy */
    if (staged) host = way == IN && n <= planted("PAGEABLE_THRESHOLD", 65536) ? host + (int64_t)((double)n / 10) : later(host, end + SYNC_RETURN());
    deliver();
}
static int wait_for(int64_t until)
{
    host = until > host ? until + SYNC_RETURN() : host + SYNC_IDLE();
    deliver();
    return 0;
}
int cuMemcpyHtoDAsync_v2(Pointer d, const void *p, size_t n, Stream *s) { (void)d; return copy(IN, p, n, s), 0; }
int cuMemcpyDtoHAsync_v2(void *p, Pointer d, size_t n, Stream *s)
{
    if (n <= 4096 && is_small(d)) memcpy(p, (void *)(uintptr_t)d, n);
    return copy(OUT, p, n, s), 0;
}
int cuMemcpyDtoDAsync_v2(Pointer a, Pointer b, size_t n, Stream *s) { (void)a, (void)b; return copy(INSIDE, NULL, n, s), 0; }
int cuMemcpyHtoD_v2(Pointer d, const void *p, size_t n) { return cuMemcpyHtoDAsync_v2(d, p, n, NULL), wait_for(null_stream.until); }
int cuMemcpyDtoH_v2(void *p, Pointer d, size_t n) { return cuMemcpyDtoHAsync_v2(p, d, n, NULL), wait_for(null_stream.until); }
int cuMemcpyDtoD_v2(Pointer a, Pointer b, size_t n) { return cuMemcpyDtoDAsync_v2(a, b, n, NULL); }

int cuDeviceCanAccessPeer(int *able, int a, int b) { (void)a, (void)b; return *able = 1, 0; }
int cuCtxEnablePeerAccess(void *c, unsigned flags) { (void)c, (void)flags; return 0; }
int cuMemcpyPeerAsync(Pointer a, void *ca, Pointer b, void *cb, size_t n, Stream *s)
{
    (void)a, (void)ca, (void)b, (void)cb;
    int64_t start = later(host + COPY_SUBMIT(), of(s)->until);
    of(s)->until = start + PEER_LATENCY() + (int64_t)near((double)n / rate_of("PEER_RATE", 250000));
    host += COPY_CALL();
    deliver();
    return 0;
}

int cuStreamCreate(Stream **s, unsigned flags)
{
    (void)flags;
    *s = calloc(1, sizeof **s);
    if (stream_count < 512) streams[stream_count++] = *s;
    return host += 3000, 0;
}
int cuStreamDestroy_v2(Stream *s) { (void)s; return 0; }
int cuStreamSynchronize(Stream *s) { return wait_for(of(s)->until); }
int cuStreamQuery(Stream *s) { return of(s)->until > (host += 300) ? 600 : 0; }
int cuStreamWaitEvent(Stream *s, Event *e, unsigned flags)
{
    (void)flags;
    of(s)->until = later(of(s)->until, e->at);
    return host += 400, 0;
}
int cuCtxSynchronize(void)
{
    int64_t last = null_stream.until;
    for (int i = 0; i < stream_count; i++) last = later(last, streams[i]->until);
    return wait_for(last);
}
int cuEventCreate(Event **e, unsigned flags) { (void)flags; return *e = calloc(1, sizeof **e), host += 500, 0; }
int cuEventDestroy_v2(Event *e) { free(e); return 0; }
int cuEventRecord(Event *e, Stream *s)
{
    /* as far from its call as a copy begins from its own */
    e->at = later(host + (int64_t)COPY_SUBMIT_value(), of(s)->until) + EVENT_DEVICE();
    if (EVENT_DEVICE_value() > 0) of(s)->until = e->at;
    return host += EVENT_CALL(), 0;
}
int cuEventSynchronize(Event *e) { return wait_for(e->at); }
int cuEventQuery(Event *e) { return e->at > (host += 300) ? 600 : 0; }
int cuEventElapsedTime(float *ms, Event *a, Event *b) { return *ms = (float)((double)(b->at - a->at) * 1e-6), 0; }

static double count_of(void **values, int which) { return (double)*(unsigned long long *)values[which]; }
static double over_link(void **values, int which, double rate)
{
    Pointer p = *(Pointer *)values[which];
    if (p >= managed_at && p < managed_end) return rate_of("MIGRATION_RATE", 11000);
    return is_pinned((void *)(uintptr_t)p) ? rate_of("H2D_RATE", 24000) : rate;
}
int cuLaunchKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, Stream *s,
                   void **values, void **extra)
{
    (void)gy, (void)gz, (void)by, (void)bz, (void)shared, (void)extra;
    const char *name = f->name;
    int64_t begun = host;
    double memory = rate_of("MEMORY_RATE", 1400000), took;
    if (planted("FAIL", 0) > 0) return 719;
    while (planted("HANG", 0) > 0) sleep(1);
    int free_place = 0;
    for (int i = 1; i < places; i++)
        if (place_until[i] < place_until[free_place]) free_place = i;
    int64_t start = later(begun + LAUNCH_LATENCY(), place_until[free_place]);
    if (of(s)->until + (int64_t)KERNEL_GAP_value() > start) start = of(s)->until + KERNEL_GAP();
    host = begun + LAUNCH_CALL();
    if (!strcmp(name, "tb_spin")) took = count_of(values, 0) / 1.5;
    else if (!strcmp(name, "tb_flag")) {
        took = (double)*(unsigned long long *)values[0];
        store(start + (int64_t)took + FLIGHT(), *(Pointer *)values[1], *(unsigned *)values[2]);
    } else if (!strcmp(name, "tb_pingpong")) {
        ping.from = (void *)(uintptr_t)*(Pointer *)values[0], ping.to = (void *)(uintptr_t)*(Pointer *)values[1];
        ping.next = 1, ping.count = *(unsigned *)values[2];
        took = 0;
    } else if (!strcmp(name, "tb_triad")) {
        took = 24 * count_of(values, 3) / memory;
        heavy_until = later(heavy_until, start + (int64_t)took);
    } else if (!strcmp(name, "tb_copy")) took = 32 * count_of(values, 2) / memory;
    else if (!strcmp(name, "tb_read")) took = 16 * count_of(values, 1) / over_link(values, 0, memory);
    else if (!strcmp(name, "tb_write")) took = 16 * count_of(values, 1) / over_link(values, 0, memory);
    else if (!strncmp(name, "tb_fma", 6))
        took = 256.0 * *(unsigned *)values[1] * gx * bx / (strstr(name, "64") ? planted("FP64", 9000) : planted("FP32", 18000));
    else if (!strcmp(name, "tb_chase")) {
        double hops = *(unsigned *)values[2];
        double each = is_pinned((void *)(uintptr_t)*(Pointer *)values[0]) ? 2 * FLIGHT_value() : hops > 1e5 ? 200 : 500;
        took = hops * near(each);
        *(long long *)(uintptr_t)*(Pointer *)values[4] = (long long)(took * 1.5);
        *(unsigned long long *)(uintptr_t)*(Pointer *)values[5] = (unsigned long long)took;
    } else if (!strcmp(name, "tb_matmul")) {
        double n = *(unsigned *)values[3];
        took = 2 * n * n * n / planted("FP32", 18000);
    } else took = KERNEL();
    of(s)->until = place_until[free_place] = start + (int64_t)near(took);
    deliver();
    return 0;
}
