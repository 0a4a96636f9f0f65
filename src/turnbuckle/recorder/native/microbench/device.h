/* device.h - the sections of microbench.c about what host and device do by themselves and side by side. */
#pragma once

static bool own_clock; /* the driver's */

/* loads the driver, takes the first device, loads the kernels; facts of the device as JSON */
static void device_begin(char *machine, size_t room)
{
    int count = 0, version = 0, major = 0, minor = 0, value[6] = { 0 };
    static const int wanted[6] = { ATTR_SM_COUNT, ATTR_CLOCK_RATE, ATTR_MEMORY_CLOCK, ATTR_BUS_WIDTH, ATTR_L2, ATTR_ASYNC_ENGINES };
    char name[128] = "", shown[256], driver[64] = "";
    size_t n = 0, total = 0;
    CUdevice first;
    CUcontext context;
    driver_open();
    int64_t (*clock_of_driver)(void);
    *(void **)&clock_of_driver = dlsym(cu.library, "tb_standin_now_ns");
    if (clock_of_driver) now_ns = clock_of_driver, own_clock = true;
    CUresult begun = cu.init(0);
    if (begun == 0) begun = cu.deviceCount(&count);
    if (begun != 0 || count < 1) {
        fprintf(stderr, "no device: cuInit %d, %d devices\n", begun, count);
        exit(EXIT_NO_DEVICE);
    }
    CHECK(driverVersion(&version));
    CHECK(deviceGet(&first, 0));
    CHECK(deviceName(name, sizeof name, first));
    CHECK(deviceTotalMem(&total, first));
    CHECK(deviceAttribute(&major, ATTR_CC_MAJOR, first));
    CHECK(deviceAttribute(&minor, ATTR_CC_MINOR, first));
    for (int i = 0; i < 6; i++)
        if (cu.deviceAttribute(&value[i], wanted[i], first) != 0) value[i] = 0;
    CHECK(primaryRetain(&context, first));
    CHECK(ctxSetCurrent(context));
    CHECK(memGetInfo(&free_bytes, &total));
    CHECK(moduleLoadData(&module, kernels_ptx()));
    for (const char *p = name; *p && n + 2 < sizeof shown; p++)
        if (*p >= ' ' && *p != '"' && *p != '\\' && (unsigned char)*p < 127) shown[n++] = *p;
    shown[n] = 0;
    FILE *about = fopen("/proc/driver/nvidia/version", "r");
    if (about) {
        char line[256] = "";
        if (fgets(line, sizeof line, about))
            for (char *p = line; *p && !driver[0]; p++)
                if (sscanf(p, " %63[0-9.]", driver) != 1 || !strchr(driver, '.')) driver[0] = 0;
        fclose(about);
    }
    snprintf(machine, room,
             "{\"gpu\": \"%s\", \"cc\": \"%d.%d\", \"sms\": %d, \"memory_bytes\": %zu, \"l2_bytes\": %d, \"memory_bus_bits\": %d, "
             "\"max_sm_clock_khz\": %d, \"max_memory_clock_khz\": %d, \"copy_engines\": %d, \"cuda_driver\": %d, \"driver\": \"%s\"}",
             shown, major, minor, value[0], total, value[4], value[3], value[1], value[2], value[5], version, driver);
}

/* ------------------------------------------------------------ side by side */
static void section_concurrent(void)
{
    enum { MOST = 128 };
    CUstream s[MOST];
    CUfunction spinning = kernel("tb_spin");
    Sample wall = { 0 };
    /* long beside the time in which the host launches all of them */
    unsigned long long cycles = 4000000;
    void *values[] = { &cycles };
    int sm = 1;
    static const int counts[] = { 1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128 };
    CHECK(deviceAttribute(&sm, ATTR_SM_COUNT, 0));
    for (int i = 0; i < MOST; i++) s[i] = stream();
    launch(spinning, 1, 32, s[0], values);
    CHECK(ctxSynchronize());
    for (int full = 0; full < 2; full++)
        for (size_t j = 0; j < sizeof counts / sizeof *counts; j++) {
            unsigned blocks = full ? (unsigned)sm : 1;
            if (skipped()) return;
            for (REPEAT(150, 8, 60)) {
                CHECK(ctxSynchronize());
                int64_t t = now_ns();
                for (int i = 0; i < counts[j]; i++) launch(spinning, blocks, 32, s[i], values);
                CHECK(ctxSynchronize());
                add(&wall, (double)(now_ns() - t));
            }
            ROW("\"case\": \"spinning_kernels\", \"kernels\": %d, \"blocks\": %u, \"cycles\": %llu", counts[j], blocks, cycles);
            stat("wall", &wall), row_end();
        }
}

static void section_contention(void)
{
    size_t n = (quick ? 8 : 64) * MiB, bytes = (quick ? 32 : 256) * MiB;
    while ((3 * n * 8 + 2 * bytes) * 2 > free_bytes && n > MiB) n /= 2, bytes /= 2;
    bytes = within(bytes, 0, 2);
    CUdeviceptr a = device(n * 8), b = device(n * 8), c = device(n * 8), d = device(bytes), d2 = device(bytes);
    unsigned long long count = n;
    void *values[] = { &a, &b, &c, &count };
    void *pin = pinned(bytes), *pin2 = pinned(bytes);
    Way ways[] = { { "h2d", "pinned", pin, d, 0 }, { "d2h", "pinned", pin2, d2, 0 } };
    CUstream sk = stream(), sc = stream();
    CUevent e0 = event(), e1 = event();
    CUfunction triad = kernel("tb_triad");
    Sample copied = { 0 };
    int sm = 1;
    CHECK(deviceAttribute(&sm, ATTR_SM_COUNT, 0));
    CHECK(memsetD8(b, 1, n * 8));
    CHECK(memsetD8(c, 1, n * 8));
    for (int beside = 0; beside < 2; beside++)
        for (int w = 0; w < 2; w++) {
            if (skipped()) return;
            for (int turn = 0; turn < 8; turn++) {
                CHECK(ctxSynchronize());
                for (int i = 0; beside && i < 60; i++) launch(triad, (unsigned)sm * 16, 512, sk, values);
                CHECK(eventRecord(e0, sc));
                for (int i = 0; i < 3; i++) copy_async(&ways[w], bytes, sc);
                CHECK(eventRecord(e1, sc));
                CHECK(ctxSynchronize());
                add(&copied, between(e0, e1) / 3);
            }
            ROW("\"case\": \"kernel_and_copies\", \"kernel\": \"%s\", \"copies\": \"%s\", \"copy_bytes\": %zu", beside ? "memory_bound_long" : "none",
                ways[w].dir, bytes);
            stat(w ? "d2h_event" : "h2d_event", &copied), row_end();
        }
}

/* ------------------------------------------------------------ what the device does by itself */
static CUevent timing[2];
static void timed(CUfunction f, unsigned blocks, unsigned threads, void **values, Sample *s)
{
    CUstream own = NULL;
    if (!timing[0]) timing[0] = event(), timing[1] = event();
    launch(f, blocks, threads, own, values);
    CHECK(ctxSynchronize());
    for (REPEAT(150, 10, 200)) {
        CHECK(eventRecord(timing[0], own));
        launch(f, blocks, threads, own, values);
        CHECK(eventRecord(timing[1], own));
        CHECK(eventSynchronize(timing[1]));
        add(s, between(timing[0], timing[1]));
    }
}

static void chase(const char *where, size_t bytes, bool on_host)
{
    size_t n = bytes / 4, step = 32, lines = n / step; /* one hop a line of 128 B, in a random cycle */
    unsigned *order = malloc(lines * sizeof *order), *next = calloc(n, sizeof *next), hops = on_host ? 2000 : 20000;
    unsigned long long seed = 12345;
    CUdeviceptr place, out = device(256), cycles = out + 64, ns = out + 128;
    void *host = NULL;
    Sample taken = { 0 }, counted = { 0 };
    if (!order || !next) exit(EXIT_FAILED);
    for (size_t i = 0; i < lines; i++) order[i] = (unsigned)(i * step);
    for (size_t i = lines - 1; i > 0; i--) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        size_t j = (seed >> 33) % (i + 1);
        unsigned held = order[i];
        order[i] = order[j], order[j] = held;
    }
    for (size_t i = 0; i < lines; i++) next[order[i]] = order[(i + 1) % lines];
    if (on_host) {
        host = pinned(bytes);
        memcpy(host, next, bytes);
        CHECK(memHostDevice(&place, host, 0));
    } else {
        place = device(bytes);
        CHECK(copyHtoD(place, next, bytes));
    }
    for (unsigned r = 0; r < 12; r++) {
        long long c = 0;
        unsigned long long t = 0;
        unsigned first = order[(size_t)r * (hops + 1000) % lines]; /* never the same lines twice */
        void *values[] = { &place, &first, &hops, &out, &cycles, &ns };
        launch(kernel("tb_chase"), 1, 1, NULL, values);
        CHECK(copyDtoH(&c, cycles, 8));
        CHECK(copyDtoH(&t, ns, 8));
        if (r > 1 && t > 0) add(&counted, (double)c / hops), add(&taken, (double)t / hops);
    }
    ROW("\"case\": \"load_latency\", \"where\": \"%s\", \"bytes\": %zu, \"hops\": %u", where, bytes, hops);
    stat("latency", &taken), stat("latency_cycles", &counted), row_end();
    if (on_host) {
        unsigned long long count = bytes / 16;
        void *reads[] = { &place, &count, &out }, *writes[] = { &place, &count };
        timed(kernel("tb_read"), 1056, 512, reads, &taken);
        ROW("\"case\": \"kernel_reads_host\", \"moved_bytes\": %zu", bytes);
        stat("event", &taken), row_end();
        timed(kernel("tb_write"), 1056, 512, writes, &taken);
        ROW("\"case\": \"kernel_writes_host\", \"moved_bytes\": %zu", bytes);
        stat("event", &taken), row_end();
        CHECK(memFreeHost(host));
    } else
        CHECK(memFree(place));
    CHECK(memFree(out));
    free(order), free(next);
}

static void section_device(void)
{
    Sample s = { 0 };
    int sm = 1;
    CHECK(deviceAttribute(&sm, ATTR_SM_COUNT, 0));
    for (size_t bytes = 16 * MiB; bytes <= (quick ? 256 : 1024) * MiB && bytes * 4 < free_bytes; bytes *= 4) {
        CUdeviceptr a = device(bytes), b = device(bytes), c = device(bytes);
        unsigned long long doubles = bytes / 8, pairs = bytes / 16;
        void *three[] = { &a, &b, &c, &doubles }, *two[] = { &a, &b, &pairs }, *in[] = { &b, &pairs, &a }, *out[] = { &a, &pairs };
        struct { const char *name, *function; void **values; size_t passes; } all[] = {
            { "triad", "tb_triad", three, 3 }, { "copy_kernel", "tb_copy", two, 2 }, { "read_kernel", "tb_read", in, 1 }, { "write_kernel", "tb_write", out, 1 } };
        CHECK(memsetD8(b, 1, bytes));
        CHECK(memsetD8(c, 1, bytes));
        for (int k = 0; k < 4; k++) {
            if (skipped()) return;
            timed(kernel(all[k].function), (unsigned)sm * 16, 512, all[k].values, &s);
            ROW("\"case\": \"%s\", \"array_bytes\": %zu, \"moved_bytes\": %zu", all[k].name, bytes, all[k].passes * bytes);
            stat("event", &s), row_end();
        }
        CHECK(memFree(a));
        CHECK(memFree(b));
        CHECK(memFree(c));
    }
    unsigned blocks = (unsigned)sm * 8, threads = 256, rounds = quick ? 1000 : 4000;
    CUdeviceptr out = device((size_t)blocks * threads * 8);
    void *values[] = { &out, &rounds };
    double flop = 2.0 * 8 * 16 * rounds * blocks * threads;
    for (int wide = 1; wide >= 0; wide--) {
        if (skipped()) return;
        timed(kernel(wide ? "tb_fma64" : "tb_fma32"), blocks, threads, values, &s);
        ROW("\"case\": \"%s\", \"flop\": %.0f", wide ? "fma_fp64" : "fma_fp32", flop);
        stat("event", &s), row_end();
    }
    CHECK(memFree(out));
    if (skipped()) return;
    chase("l2", 4 * MiB, false);
    chase("device", within((quick ? 128 : 512) * MiB, 1, 2), false);
    chase("pinned_host", within((quick ? 16 : 64) * MiB, 0, 3), true);
}

/* Unified memory: the host writes it, a kernel reads it, the host reads it again.  Asked for by name only. */
static void section_managed(void)
{
    size_t bytes = 32 * MiB;
    int able = 0;
    CUdeviceptr p, out = device(256);
    unsigned long long count = bytes / 16;
    void *values[] = { &p, &count, &out };
    Sample there = { 0 }, back = { 0 };
    if (skipped()) return;
    if (cu.deviceAttribute(&able, ATTR_MANAGED, 0) != 0 || !able || !cu.memAllocManaged || bytes > free_bytes / 8) {
        ROW("\"skipped\": \"no unified memory\"");
        row_end();
        return;
    }
    CHECK(memAllocManaged(&p, bytes, MANAGED_GLOBAL));
    for (int turn = 0; turn < 10; turn++) {
        volatile unsigned char *host = (volatile unsigned char *)(uintptr_t)p;
        for (size_t i = 0; i < bytes; i += 4096) host[i] = (unsigned char)turn;
        int64_t t = now_ns();
        launch(kernel("tb_read"), 1056, 512, NULL, values);
        CHECK(ctxSynchronize());
        int64_t u = now_ns();
        unsigned sum = 0;
        for (size_t i = 0; i < bytes; i += 4096) sum += host[i];
        if (turn > 1 && sum + 1) add(&there, (double)(u - t)), add(&back, (double)(now_ns() - u));
    }
    ROW("\"dir\": \"h2d\", \"mem\": \"managed\", \"bytes\": %zu", bytes);
    stat("event", &there), row_end();
    ROW("\"dir\": \"d2h\", \"mem\": \"managed\", \"bytes\": %zu", bytes);
    stat("event", &back), row_end();
    CHECK(memFree(p));
    CHECK(memFree(out));
}

/* ------------------------------------------------------------ the host; by the real clock, whatever the driver's is */
typedef struct { double *a, *b, *c; size_t from, to; } Part;
static void *fill(void *given)
{
    Part *p = given;
    for (size_t i = p->from; i < p->to; i++) p->a[i] = 0, p->b[i] = 1, p->c[i] = 2;
    return NULL;
}
static void *triad_part(void *given)
{
    Part *p = given;
    for (size_t i = p->from; i < p->to; i++) p->a[i] = p->b[i] + 0.4 * p->c[i];
    return NULL;
}
static void each(void *(*work)(void *), Part *parts, unsigned count)
{
    pthread_t threads[1024];
    unsigned begun = 0;
    while (begun < count && pthread_create(&threads[begun], NULL, work, &parts[begun]) == 0) begun++;
    for (unsigned i = begun; i < count; i++) work(&parts[i]);
    for (unsigned i = 0; i < begun; i++) pthread_join(threads[i], NULL);
}

/* Cores of the node, not the hardware threads of them; threads where the system does not tell. */
static unsigned host_cores(void)
{
    long online = sysconf(_SC_NPROCESSORS_CONF), seen = 0;
    enum { MOST = 8192 };
    static long long known[MOST];
    for (long cpu = 0; cpu < online && cpu < MOST; cpu++) {
        static const char *const names[2] = { "physical_package_id", "core_id" };
        long value[2] = { -1, -1 }, at = 0;
        for (int k = 0; k < 2; k++) {
            char place[96];
            snprintf(place, sizeof place, "/sys/devices/system/cpu/cpu%ld/topology/%s", cpu, names[k]);
            FILE *file = fopen(place, "r");
            if (!file) break;
            if (fscanf(file, "%ld", &value[k]) != 1) value[k] = -1;
            fclose(file);
        }
        if (value[1] < 0) continue;
        long long own = (long long)value[0] * 1000000 + value[1];
        while (at < seen && known[at] != own) at++;
        if (at == seen) known[seen++] = own;
    }
    return seen > 0 ? (unsigned)seen : usable_processors();
}

/* The work of a framework between its calls, in small: a program of bytes is read, decoded and branched on; values go through a table of
 * 256 KiB.  The program comes from a fixed seed, so that every host runs the same one. */
enum { PROGRAM = 4096, TABLE = 65536 };
static uint64_t interpret(const uint8_t *program, uint32_t *table, size_t steps)
{
    uint64_t r[8] = { 1, 2, 3, 5, 7, 11, 13, 17 };
    size_t at = 0;
    for (size_t i = 0; i < steps; i++) {
        uint8_t code = program[at], a = code & 7, b = program[(at + 1) & (PROGRAM - 1)] & 7;
        at = (at + 2) & (PROGRAM - 1);
        switch (code >> 4) {
        case 0: case 1: r[a] += r[b]; break;
        case 2: r[a] ^= r[b] >> 7; break;
        case 3: r[a] = r[a] << 13 | r[a] >> 51; break;
        case 4: r[a] *= 0x9e3779b97f4a7c15u; break;
        case 5: case 6: case 7: r[a] += table[(r[b] >> 20) & (TABLE - 1)]; break;
        case 8: case 9: table[(r[a] >> 24) & (TABLE - 1)] = (uint32_t)r[b]; break;
        case 10: case 11: if (r[a] & 1) at = (at + 2 * b) & (PROGRAM - 1); break;
        case 12: if (r[a] < r[b]) r[a] += 3 * r[b]; break;
        case 13: r[a] -= r[b] | 1; break;
        case 14: r[a] = r[b] % 1021 + r[a]; break;
        default: r[a] ^= r[a] << 17; break;
        }
    }
    return r[0] ^ r[3] ^ r[7];
}
static void interpreter_loop(void)
{
    static uint8_t program[PROGRAM];
    static uint32_t table[TABLE];
    uint64_t seed = 88172645463325252u, sum = 0;
    const size_t steps = 1000000;
    Sample step = { 0 };
    for (size_t i = 0; i < PROGRAM; i++) seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17, program[i] = (uint8_t)(seed >> 32);
    sum += interpret(program, table, steps);
    for (REPEAT(400, 8, 1000)) {
        int64_t t = real_ns();
        sum += interpret(program, table, steps);
        add(&step, (double)(real_ns() - t) / (double)steps);
    }
    if (!sum) fputs(" ", stderr);
    ROW("\"case\": \"interpreter\", \"steps\": %zu", steps);
    stat("step", &step), row_end();
}

static void section_host(void)
{
    unsigned most = usable_processors();
    /* doubles an array: beyond the caches of any host, where its memory allows */
    size_t n = within((quick ? 256 : 1024) * MiB, 0, 3) / 8;
    static Part parts[1024];
    Sample wall = { 0 };
    ROW("\"case\": \"cores\", \"count\": %u, \"usable_processors\": %u", host_cores(), most);
    row_end();
    interpreter_loop();
    for (unsigned k = 1; k <= most; k = k * 2 > most && k < most ? most : k * 2) {
        if (skipped()) return;
        double *a = malloc(n * 8), *b = malloc(n * 8), *c = malloc(n * 8);
        if (!a || !b || !c) exit(EXIT_FAILED);
        for (unsigned i = 0; i < k; i++) parts[i] = (Part){ a, b, c, n * i / k, n * (i + 1) / k };
        each(fill, parts, k);
        for (int turn = 0; turn < 6; turn++) {
            int64_t t = real_ns();
            each(triad_part, parts, k);
            add(&wall, (double)(real_ns() - t));
        }
        if (a[n / 2] < 0) fputs(" ", stderr);
        ROW("\"case\": \"stream_triad\", \"threads\": %u, \"moved_bytes\": %zu", k, n * 24);
        stat("wall", &wall), row_end();
        free(a), free(b), free(c);
    }
}
