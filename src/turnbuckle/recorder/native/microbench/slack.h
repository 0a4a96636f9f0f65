/* slack.h - two sections of microbench.c: copies between two devices, and the proxy application of the slack study (Shorts and Grant, SC24-W): what delays of every call cost.
 *
 * A turn is five calls on the default stream: two matrices there, their product, one back, a wait.  After each of them the
 * thread is held for the slack.  Threads have matrices of their own. */
#pragma once

typedef struct { unsigned n; size_t bytes; float *a, *b, *c; CUdeviceptr da, db, dc; int64_t slack_ns; int turns; CUcontext context; } Work;

static CUfunction product;

static void held(int64_t slack_ns)
{
    if (slack_ns > 0) spin_ns(slack_ns);
}
static void *turns_of(void *given)
{
    Work *w = given;
    void *values[] = { &w->da, &w->db, &w->dc, &w->n };
    unsigned blocks = (unsigned)(((size_t)w->n * w->n + 255) / 256);
    CHECK(ctxSetCurrent(w->context));
    for (int i = 0; i < w->turns; i++) {
        CHECK(copyHtoD(w->da, w->a, w->bytes)), held(w->slack_ns);
        CHECK(copyHtoD(w->db, w->b, w->bytes)), held(w->slack_ns);
        launch(product, blocks, 256, NULL, values), held(w->slack_ns);
        CHECK(copyDtoH(w->c, w->dc, w->bytes)), held(w->slack_ns);
        CHECK(ctxSynchronize()), held(w->slack_ns);
    }
    return NULL;
}
static double turn_ns(Work *work, int threads, int turns, int64_t slack_ns)
{
    pthread_t others[64];
    int begun = 1;
    int64_t t = now_ns();
    for (int k = 0; k < threads; k++) work[k].turns = turns, work[k].slack_ns = slack_ns;
    for (; begun < threads; begun++)
        if (pthread_create(&others[begun], NULL, turns_of, &work[begun]) != 0) exit(EXIT_FAILED);
    turns_of(&work[0]);
    for (int k = 1; k < begun; k++) pthread_join(others[k], NULL);
    return (double)(now_ns() - t) / turns;
}

/* the kernel alone, as the published proxy times it first: the least of three */
static double product_ns(Work *w)
{
    void *values[] = { &w->da, &w->db, &w->dc, &w->n };
    double least = 1e18;
    CUevent e0 = event(), e1 = event();
    for (int i = 0; i < 4; i++) {
        CHECK(eventRecord(e0, NULL));
        launch(product, (unsigned)(((size_t)w->n * w->n + 255) / 256), 256, NULL, values);
        CHECK(eventRecord(e1, NULL));
        CHECK(eventSynchronize(e1));
        double taken = between(e0, e1);
        if (i && taken < least) least = taken;
    }
    CHECK(eventDestroy(e0));
    CHECK(eventDestroy(e1));
    return least;
}

static void section_slack(void)
{
    enum { MOST = 8 };
    static const int64_t slacks[] = { 0, 1000, 10000, 100000, 1000000, 10000000 };
    Work work[MOST];
    Sample s = { 0 };
    CUcontext context;
    unsigned usable = usable_processors();
    CHECK(primaryRetain(&context, 0));
    product = kernel("tb_matmul");
    for (unsigned n = 512; n <= (quick ? 1024 : 4096); n *= 2) {
        size_t bytes = (size_t)n * n * sizeof(float);
        if (within(bytes, 3 * MOST, 3 * MOST) < bytes) break;
        for (int k = 0; k < MOST; k++)
            work[k] = (Work){ .n = n, .bytes = bytes, .a = pageable(bytes), .b = pageable(bytes), .c = pageable(bytes), .da = device(bytes),
                              .db = device(bytes), .dc = device(bytes), .context = context };
        double alone = product_ns(&work[0]);
        /* on a clock that a driver keeps, there is one thread */
        for (int threads = 1; threads <= (own_clock ? 1 : MOST) && (unsigned)threads <= usable; threads *= 2)
            for (size_t j = 0; j < sizeof slacks / sizeof *slacks; j++) {
                if (skipped()) return;
                double one = turn_ns(work, threads, 2, slacks[j]);
                int turns = (int)(0.1 * effort * 1e9 / one);
                turns = turns < 3 ? 3 : turns > 200 ? 200 : turns;
                for (int k = 0; k < 3; k++) add(&s, turn_ns(work, threads, turns, slacks[j]));
                ROW("\"case\": \"proxy\", \"n\": %u, \"threads\": %d, \"slack_ns\": %lld, \"turns\": %d, \"kernel_ns\": %.0f", n, threads,
                    (long long)slacks[j], turns, alone);
                stat("per_iter", &s), row_end();
            }
        for (int k = 0; k < MOST; k++) {
            CHECK(memFree(work[k].da));
            CHECK(memFree(work[k].db));
            CHECK(memFree(work[k].dc));
            free(work[k].a), free(work[k].b), free(work[k].c);
        }
    }
}

/* ------------------------------------------------------------ from the first device to the second, where there is one */
static void section_peer(void)
{
    CUcontext own, other;
    CUdevice second;
    int count = 0, able = 0;
    size_t most = within((quick ? 64 : 256) * MiB, 1, 0);
    Sample done = { 0 }, ev = { 0 };
    CHECK(deviceCount(&count));
    if (count < 2 || !cu.canAccessPeer || !cu.enablePeer || !cu.copyPeerAsync) {
        ROW("\"skipped\": \"one device\"");
        row_end();
        return;
    }
    CHECK(deviceGet(&second, 1));
    CHECK(primaryRetain(&own, 0));
    CHECK(primaryRetain(&other, second));
    CHECK(ctxSetCurrent(other));
    CUdeviceptr there = device(most);
    CHECK(ctxSetCurrent(own));
    CUdeviceptr here = device(most);
    CHECK(canAccessPeer(&able, 0, second));
    if (able) CHECK(enablePeer(other, 0));
    CUstream s = stream();
    CUevent e0 = event(), e1 = event();
    for (size_t n = 1; n <= most; n *= quick ? 4 : 2) {
        if (skipped()) return;
        CHECK(copyPeerAsync(there, other, here, own, n, s));
        CHECK(streamSynchronize(s));
        for (REPEAT(25, 3, 400)) {
            int64_t t = now_ns();
            CHECK(copyPeerAsync(there, other, here, own, n, s));
            CHECK(streamSynchronize(s));
            add(&done, (double)(now_ns() - t));
        }
        for (REPEAT(25, 3, 400)) {
            CHECK(eventRecord(e0, s));
            CHECK(copyPeerAsync(there, other, here, own, n, s));
            CHECK(eventRecord(e1, s));
            CHECK(eventSynchronize(e1));
            add(&ev, between(e0, e1));
        }
        ROW("\"dir\": \"p2p\", \"mem\": \"device\", \"bytes\": %zu, \"call\": \"async\", \"direct\": %d", n, able);
        stat("done", &done), stat("event", &ev), row_end();
    }
}
