/* kernels.cu - kernels of HPC classes, each timed on the device by events: rows for the table of kernels by class.
 *
 *     kernels NAME [n=... repeats=... iters=...]        kernels list
 *
 * One "machine" line, then one JSON line a repeat: the time of one pass over the work, the bytes and operations that a pass needs at least
 * (every operand once), how it was launched, and a check whose right value is printed beside it.  Nothing is copied while it is timed.
 */
#include "kit.h"
#include <cuda_fp16.h>

#define BLOCK 256
#define TILE 16

struct Shape {
    const char *kernel, *of, *precision; /* name; class as `turnbuckle.profile.kernels` reads it off that name; precision */
    double bytes, operations;            /* of one pass */
    long blocks, threads;
};

template <class T> static T *device(size_t n)
{
    T *p;
    CHECK(cudaMalloc(&p, n * sizeof(T)));
    CHECK(cudaMemset(p, 0, n * sizeof(T)));
    return p;
}
template <class T> static T *filled(const std::vector<T> &values)
{
    T *p = device<T>(values.size());
    CHECK(cudaMemcpy(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}
static long blocks_of(size_t n) { return (long)((n + BLOCK - 1) / BLOCK); }

/* `pass` is one pass; `before` is done ahead of each repeat and not timed; `check` gives what came out and what is right. */
static void timed(Args &a, const Shape &s, const std::function<void()> &pass, const std::function<std::pair<double, double>()> &check,
                  const std::function<void()> &before = [] {})
{
    long iters = a.integer("iters", 20), repeats = a.integer("repeats", 5);
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    before();
    pass(); /* the first one loads the code */
    CHECK(cudaDeviceSynchronize());
    for (long r = 0; r < repeats && !past_deadline(); r++) {
        float ms = 0;
        before();
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaEventRecord(begin));
        for (long i = 0; i < iters; i++) pass();
        CHECK(cudaEventRecord(end));
        CHECK(cudaEventSynchronize(end));
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        CHECK(cudaGetLastError());
        std::pair<double, double> c = check();
        printf("{\"program\": \"%s\", \"class\": \"%s\", \"precision\": \"%s\", \"args\": %s, \"rep\": %ld, \"iters\": %ld, \"wall_ns\": %.0f, "
               "\"per_iter_ns\": %.3f, \"bytes\": %.0f, \"operations\": %.0f, \"blocks\": %ld, \"threads\": %ld, \"check\": %.9g, \"right\": %.9g}\n",
               s.kernel, s.of, s.precision, a.json().c_str(), r, iters, ms * 1e6, ms * 1e6 / iters, s.bytes, s.operations, s.blocks, s.threads,
               c.first, c.second);
        fflush(stdout);
    }
}
template <class T> static T last(const T *p, size_t at)
{
    T value;
    CHECK(cudaMemcpy(&value, p + at, sizeof(T), cudaMemcpyDeviceToHost));
    return value;
}

/* ------------------------------------------------------------ stencil: 7 points of a cube in FP64 */
extern "C" __global__ void stencil_7pt_fp64(const double *u, double *v, int n)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
    if (x < 1 || y < 1 || z < 1 || x >= n - 1 || y >= n - 1 || z >= n - 1) return;
    size_t row = n, plane = (size_t)n * n, i = z * plane + y * row + x;
    v[i] = (u[i - 1] + u[i + 1] + u[i - row] + u[i + row] + u[i - plane] + u[i + plane] - 6.0 * u[i]) / 6.0;
}
static void run_stencil(Args &a)
{
    int n = (int)a.integer("n", 256);
    size_t all = (size_t)n * n * n;
    std::vector<double> h(all);
    for (size_t i = 0; i < all; i++) h[i] = (double)(i % n) * (double)(i % n); /* x squared: its second difference is 2 */
    double *u = filled(h), *v = device<double>(all);
    dim3 block(32, 8), grid((n + 31) / 32, (n + 7) / 8, n);
    Shape s = {"stencil_7pt_fp64", "stencil", "fp64", 16.0 * all, 8.0 * all, (long)grid.x * grid.y * grid.z, BLOCK};
    size_t middle = (size_t)(n / 2) * n * n + (size_t)(n / 2) * n + n / 2;
    timed(a, s, [&] { stencil_7pt_fp64<<<grid, block>>>(u, v, n); }, [&] { return std::make_pair(last(v, middle), 2.0 / 6.0); });
}

/* ------------------------------------------------------------ SpMV: the 7-point matrix of a cube in CSR, FP64, a thread a row */
extern "C" __global__ void spmv_csr_fp64(const int *first, const int *column, const double *value, const double *x, double *y, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    double sum = 0;
    for (int k = first[i]; k < first[i + 1]; k++) sum += value[k] * x[column[k]];
    y[i] = sum;
}
static void run_spmv(Args &a)
{
    int n = (int)a.integer("n", 128), rows = n * n * n;
    std::vector<int> first(1, 0), column;
    std::vector<double> value;
    for (int i = 0; i < rows; i++) {
        int at[3] = {i % n, i / n % n, i / n / n}, step[3] = {1, n, n * n};
        for (int d = 2; d >= 0; d--) if (at[d] > 0) { column.push_back(i - step[d]); value.push_back(-1); }
        column.push_back(i); value.push_back(6);
        for (int d = 0; d < 3; d++) if (at[d] < n - 1) { column.push_back(i + step[d]); value.push_back(-1); }
        first.push_back((int)column.size());
    }
    double filling = (double)column.size();
    int *f = filled(first), *c = filled(column);
    double *v = filled(value), *x = filled(std::vector<double>(rows, 1.0)), *y = device<double>(rows);
    Shape s = {"spmv_csr_fp64", "other", "fp64", 12.0 * filling + 20.0 * rows, 2.0 * filling, blocks_of(rows), BLOCK};
    timed(a, s, [&] { spmv_csr_fp64<<<s.blocks, BLOCK>>>(f, c, v, x, y, rows); },
          [&] { return std::make_pair(last(y, 0), 3.0); }); /* a corner has three neighbours */
}

/* ------------------------------------------------------------ GEMM in three precisions: tiles in shared memory, FP16 summed up in FP32 */
template <class T, class Sum> static __device__ void gemm_tiles(const T *A, const T *B, Sum *C, int n)
{
    __shared__ T left[TILE][TILE], right[TILE][TILE + 1];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    Sum sum = 0;
    for (int k = 0; k < n; k += TILE) {
        left[threadIdx.y][threadIdx.x] = A[(size_t)row * n + k + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = B[(size_t)(k + threadIdx.y) * n + col];
        __syncthreads();
        for (int i = 0; i < TILE; i++) sum += (Sum)left[threadIdx.y][i] * (Sum)right[i][threadIdx.x];
        __syncthreads();
    }
    C[(size_t)row * n + col] = sum;
}
extern "C" __global__ void gemm_fp64(const double *A, const double *B, double *C, int n) { gemm_tiles(A, B, C, n); }
extern "C" __global__ void gemm_fp32(const float *A, const float *B, float *C, int n) { gemm_tiles(A, B, C, n); }
extern "C" __global__ void gemm_fp16(const __half *A, const __half *B, float *C, int n) { gemm_tiles(A, B, C, n); }
template <class T, class Sum>
static void multiplied(Args &a, const char *name, const char *precision, void (*kernel)(const T *, const T *, Sum *, int))
{
    int n = (int)a.integer("n", 2048) / TILE * TILE;
    size_t all = (size_t)n * n;
    T *A = filled(std::vector<T>(all, (T)0.5f)), *B = filled(std::vector<T>(all, (T)0.25f));
    Sum *C = device<Sum>(all);
    dim3 block(TILE, TILE), grid(n / TILE, n / TILE);
    Shape s = {name, "matrix product", precision, (2.0 * sizeof(T) + sizeof(Sum)) * all, 2.0 * n * all, (long)grid.x * grid.y, BLOCK};
    timed(a, s, [&] { kernel<<<grid, block>>>(A, B, C, n); }, [&] { return std::make_pair((double)last(C, all - 1), 0.125 * n); });
}
static void run_gemm(Args &a)
{
    std::string precision = a.text("precision", "fp64");
    if (precision == "fp64") multiplied(a, "gemm_fp64", "fp64", gemm_fp64);
    else if (precision == "fp32") multiplied(a, "gemm_fp32", "fp32", gemm_fp32);
    else if (precision == "fp16") multiplied(a, "gemm_fp16", "fp16", gemm_fp16);
    else { fprintf(stderr, "precision=fp64|fp32|fp16\n"); exit(1); }
}

/* ------------------------------------------------------------ reduction: a sum in FP64 */
extern "C" __global__ void reduce_sum_fp64(const double *x, double *sum, size_t n)
{
    __shared__ double part[BLOCK / 32];
    double own = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) own += x[i];
    for (int o = 16; o; o >>= 1) own += __shfl_down_sync(~0u, own, o);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = own;
    __syncthreads();
    if (threadIdx.x) return;
    for (int w = 1; w < BLOCK / 32; w++) own += part[w];
    atomicAdd(sum, own);
}
static void run_reduction(Args &a)
{
    size_t n = (size_t)a.integer("n", 1 << 26);
    long iters = a.integer("iters", 20);
    double *x = filled(std::vector<double>(n, 1.0)), *sum = device<double>(1);
    Shape s = {"reduce_sum_fp64", "reduction", "fp64", 8.0 * n, 1.0 * n, std::min(blocks_of(n), 132L * 16), BLOCK};
    timed(a, s, [&] { reduce_sum_fp64<<<s.blocks, BLOCK>>>(x, sum, n); },
          [&] { return std::make_pair(last(sum, 0), (double)n * iters); }, [&] { CHECK(cudaMemset(sum, 0, sizeof(double))); });
}

/* ------------------------------------------------------------ sort: bitonic, of 32-bit keys; a pass sorts them all, in many launches */
extern "C" __global__ void bitonic_sort_step(unsigned *x, size_t n, size_t width, size_t apart)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x, j = i ^ apart;
    if (i >= n || j <= i) return;
    unsigned low = x[i], high = x[j];
    if ((low > high) == !(i & width)) { x[i] = high; x[j] = low; }
}
static void run_sort(Args &a)
{
    size_t n = (size_t)1 << a.integer("power", 24);
    std::vector<unsigned> keys(n);
    for (size_t i = 0; i < n; i++) keys[i] = (unsigned)(i * 2654435761ull);
    unsigned *given = filled(keys), *x = device<unsigned>(n);
    long turns = a.integer("power", 24), launches = turns * (turns + 1) / 2;
    Shape s = {"bitonic_sort_step", "sort and scan", "int32", 8.0 * n * launches, 0.5 * n * launches, blocks_of(n), BLOCK};
    timed(a, s, [&] {
        CHECK(cudaMemcpyAsync(x, given, n * 4, cudaMemcpyDeviceToDevice));
        for (size_t width = 2; width <= n; width <<= 1)
            for (size_t apart = width >> 1; apart; apart >>= 1) bitonic_sort_step<<<s.blocks, BLOCK>>>(x, n, width, apart);
    }, [&] {                             /* how many of some neighbours stand in the wrong order */
        std::vector<unsigned> h(n);
        double wrong = 0;
        CHECK(cudaMemcpy(h.data(), x, n * 4, cudaMemcpyDeviceToHost));
        for (size_t i = 1; i < n; i++) wrong += h[i - 1] > h[i];
        return std::make_pair(wrong, 0.0);
    });
}

/* ------------------------------------------------------------ first touch: managed memory read by a kernel, first touched there or by the host */
static void run_touch(Args &a)
{
    size_t bytes = (size_t)a.integer("bytes", 32 << 20), n = bytes / 8, unused = 0, total = 0;
    bool by_host = a.text("first", "host") == "host";
    CHECK(cudaMemGetInfo(&unused, &total));
    if (bytes > (256u << 20) || bytes > unused / 8) { fprintf(stderr, "touch: at most 256 MiB and an eighth of the free device memory\n"); exit(1); }
    a.a["iters"] = "1"; /* only the first pass is one */
    double *x = nullptr, *sum = device<double>(1);
    Shape s = {by_host ? "touch_after_host" : "touch_on_device", "reduction", "fp64", 8.0 * n, 1.0 * n, std::min(blocks_of(n), 132L * 16), BLOCK};
    timed(a, s, [&] { reduce_sum_fp64<<<s.blocks, BLOCK>>>(x, sum, n); }, [&] { return std::make_pair(last(sum, 0), by_host ? (double)n : 0.0); },
          [&] {                          /* new pages for each repeat */
        if (x) CHECK(cudaFree(x));
        CHECK(cudaMallocManaged(&x, bytes));
        CHECK(cudaMemset(sum, 0, sizeof(double)));
        if (by_host) for (size_t i = 0; i < n; i++) x[i] = 1.0;
    });
}

static const struct { const char *name; void (*run)(Args &); const char *what; } kernels[] = {
    { "stencil", run_stencil, "n=256" },
    { "spmv", run_spmv, "n=128" },
    { "gemm", run_gemm, "n=2048 precision=fp64|fp32|fp16" },
    { "reduction", run_reduction, "n=2^26" },
    { "sort", run_sort, "power=24" },
    { "touch", run_touch, "bytes=33554432 first=host|device" },
};

int main(int argc, char **argv)
{
    if (argc < 2 || !strcmp(argv[1], "list")) {
        for (auto &k : kernels) printf("%-10s %s\n", k.name, k.what);
        return argc < 2;
    }
    Args a(argc, argv, 2);
    for (auto &k : kernels)
        if (!strcmp(argv[1], k.name)) {
            int count = 0;
            cudaError_t e = cudaGetDeviceCount(&count);
            if (e != cudaSuccess || count == 0) { fprintf(stderr, "no usable GPU: %s\n", cudaGetErrorString(e)); return 5; }
            CHECK(cudaSetDevice(0));
            printf("{\"machine\": %s}\n", machine_json().c_str());
            fflush(stdout);
            k.run(a);
            CHECK(cudaDeviceSynchronize());
            return 0;
        }
    fprintf(stderr, "unknown kernel %s (kernels list)\n", argv[1]);
    return 1;
}
