/* kit.h - what programs.cu needs: arguments, clock, errors, marks, JSON, statistics. */
#pragma once
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <string>
#include <vector>

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        cudaError_t e_ = (call);                                                                             \
        if (e_ != cudaSuccess) {                                                                             \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(e_));           \
            exit(2);                                                                                         \
        }                                                                                                    \
    } while (0)

static inline int64_t now_ns()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
static inline void spin_ns(int64_t ns) { int64_t end = now_ns() + ns; while (now_ns() < end) { } }

/* TB_DEADLINE: unix time after which no new measurement is begun (what is left is listed as skipped). */
static inline bool past_deadline()
{
    static const char *s = getenv("TB_DEADLINE");
    return s && *s && (double)time(nullptr) >= atof(s);
}

/* name=value arguments */
struct Args {
    std::map<std::string, std::string> a;
    Args(int argc, char **argv, int from)
    {
        for (int i = from; i < argc; i++) {
            const char *eq = strchr(argv[i], '=');
            if (!eq) { fprintf(stderr, "not NAME=VALUE: %s\n", argv[i]); exit(1); }
            a[std::string(argv[i], eq - argv[i])] = eq + 1;
        }
    }
    double num(const char *k, double d)              /* 2^13 is allowed */
    {
        if (!a.count(k)) { char b[40]; snprintf(b, sizeof b, "%.17g", d); a[k] = b; return d; }
        const std::string &s = a[k];
        size_t p = s.find('^');
        return p == std::string::npos ? atof(s.c_str()) : pow(atof(s.c_str()), atof(s.c_str() + p + 1));
    }
    long integer(const char *k, long d) { return lround(num(k, (double)d)); }
    std::string text(const char *k, const char *d) { if (!a.count(k)) a[k] = d; return a[k]; }
    std::vector<double> list(const char *k, const char *d)
    {
        std::vector<double> v;
        std::string s = text(k, d);
        for (size_t i = 0; i < s.size();) { size_t j = s.find(',', i); if (j == std::string::npos) j = s.size();
            if (j > i) v.push_back(atof(s.substr(i, j - i).c_str())); i = j + 1; }
        return v;
    }
    std::string json() const
    {
        std::string s = "{";
        for (auto &p : a) s += (s.size() > 1 ? ", \"" : "\"") + p.first + "\": \"" + p.second + "\"";
        return s + "}";
    }
};

/* The injection library, if it is loaded in this process (RTLD_NOLOAD: never loads it itself). */
struct Injector {
    void (*mark)(const char *) = nullptr;
    int (*set_slack)(int64_t) = nullptr;
    bool loaded = false;
    void find()
    {
        const char *p = getenv("CUDA_INJECTION64_PATH");
        if (loaded || !p || !*p) return;
        void *h = dlopen(p, RTLD_NOW | RTLD_NOLOAD);
        if (!h) return;
        auto status = (int (*)())dlsym(h, "tb_status");
        mark = (void (*)(const char *))dlsym(h, "tb_mark");
        set_slack = (int (*)(int64_t))dlsym(h, "tb_set_slack");
        loaded = mark && set_slack && status && status() == 0;
        if (!loaded) { mark = nullptr; set_slack = nullptr; }
    }
};

/* Calls and bytes as the program itself makes them: the truth that a reader of the trace must find again. */
struct Counts {
    std::atomic<long> launch{0}, copy{0}, memset{0}, sync{0}, event{0}, graph{0}, managed{0}, kernels_in_graphs{0};
    std::atomic<long> h2d{0}, d2h{0}, d2d{0};
    void zero() { launch = copy = memset = sync = event = graph = managed = kernels_in_graphs = h2d = d2h = d2d = 0; }
    long boundary() const { return launch + copy + memset + sync + event + graph + managed; }
    std::string json() const
    {
        char b[512];
        snprintf(b, sizeof b,
                 "\"calls\": {\"launch\": %ld, \"graph\": %ld, \"copy\": %ld, \"memset\": %ld, \"sync\": %ld, \"event\": %ld, \"managed\": %ld}, "
                 "\"kernels_in_graphs\": %ld, \"bytes\": {\"h2d\": %ld, \"d2h\": %ld, \"d2d\": %ld}",
                 launch.load(), graph.load(), copy.load(), memset.load(), sync.load(), event.load(), managed.load(),
                 kernels_in_graphs.load(), h2d.load(), d2h.load(), d2d.load());
        return b;
    }
};

static inline std::string machine_json()
{
    cudaDeviceProp p;
    CHECK(cudaGetDeviceProperties(&p, 0));
    int drv = 0, rt = 0, clk = 0, mclk = 0, engines = 0;
    CHECK(cudaDriverGetVersion(&drv));
    CHECK(cudaRuntimeGetVersion(&rt));
    cudaDeviceGetAttribute(&clk, cudaDevAttrClockRate, 0);
    cudaDeviceGetAttribute(&mclk, cudaDevAttrMemoryClockRate, 0);
    cudaDeviceGetAttribute(&engines, cudaDevAttrAsyncEngineCount, 0);
    char b[640];
    snprintf(b, sizeof b,
             "{\"gpu\": \"%s\", \"cc\": \"%d.%d\", \"sms\": %d, \"memory_bytes\": %zu, \"l2_bytes\": %d, \"memory_bus_bits\": %d, "
             "\"max_sm_clock_khz\": %d, \"max_memory_clock_khz\": %d, \"copy_engines\": %d, \"cuda_driver\": %d, \"cuda_runtime\": %d}",
             p.name, p.major, p.minor, p.multiProcessorCount, p.totalGlobalMem, p.l2CacheSize, p.memoryBusWidth, clk, mclk, engines, drv, rt);
    return b;
}
