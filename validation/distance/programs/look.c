/* look.c - what a machine does to short times: look HOST_CORE DEVICE_CORE, prints one JSON object.
 *
 *   spin_over_us   by how much a spin of N us on the monotonic clock is too long: median and 99 % quantile
 *   wake_us        from a signal on one core to the wake of a thread that slept on the other for N us: median and 90 % quantile
 *   copy_bytes_per_s   memcpy of 8 MiB, what a copy of PoCL is: median
 *   work           the same work two thousand times: 99 % quantile and largest over the median
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TIMES = 200, WORKS = 2000, NAPS = 6, COPY = 8 << 20 };

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int64_t spin(int64_t ns)
{
    int64_t start = now(), end;
    while ((end = now()) - start < ns) sched_getcpu();
    return end - start;
}

static void pin(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static int less(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double at(int64_t *values, int count, double share)
{
    qsort(values, (size_t)count, sizeof *values, less);
    return (double)values[(int)(share * (count - 1))] * 1e-3;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t signalled = PTHREAD_COND_INITIALIZER;
static int turn;
static _Atomic int64_t woken;

static void *sleeper(void *core)
{
    pin(*(int *)core);
    for (int i = 0; i < NAPS * TIMES; i++) {
        pthread_mutex_lock(&lock);
        while (turn == 0) pthread_cond_wait(&signalled, &lock);
        woken = now();
        turn--;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(int count, char **words)
{
    static const int delays[] = { 3, 10, 30, 100, 300, 1000 }, naps[NAPS] = { 10, 30, 100, 300, 1000, 3000 };
    static int64_t values[WORKS];
    int host = count > 1 ? atoi(words[1]) : 1, device = count > 2 ? atoi(words[2]) : 0;
    pthread_t thread;
    pin(host);
    printf("{\"spin_over_us\": {");
    for (int d = 0; d < 6; d++) {
        for (int i = 0; i < TIMES; i++) values[i] = spin(delays[d] * 1000) - delays[d] * 1000;
        double median = at(values, TIMES, 0.5);
        printf("%s\"%d\": [%.3f, %.3f]", d ? ", " : "", delays[d], median, at(values, TIMES, 0.99));
    }
    printf("}, \"wake_us\": {");
    if (pthread_create(&thread, NULL, sleeper, &device)) return 1;
    for (int n = 0; n < NAPS; n++) {
        for (int i = 0; i < TIMES; i++) {
            spin(naps[n] * 1000);
            woken = 0;
            pthread_mutex_lock(&lock);
            turn++;
            int64_t sent = now();
            pthread_cond_signal(&signalled);
            pthread_mutex_unlock(&lock);
            while (!woken) sched_getcpu();
            values[i] = woken - sent;
        }
        double median = at(values, TIMES, 0.5);
        printf("%s\"%d\": [%.3f, %.3f]", n ? ", " : "", naps[n], median, at(values, TIMES, 0.9));
    }
    pthread_join(thread, NULL);
    char *from = malloc(COPY), *to = malloc(COPY);
    if (!from || !to) return 1;
    memset(from, 1, COPY);
    memset(to, 1, COPY);
    for (int i = 0; i < TIMES; i++) {
        int64_t start = now();
        from[i] = (char)i;
        memcpy(to, from, COPY);
        values[i] = now() - start + (to[i] != (char)i);
    }
    double copy_us = at(values, TIMES, 0.5);
    volatile double x = 1;
    for (int i = 0; i < WORKS; i++) {
        int64_t start = now();
        for (int k = 0; k < 50000; k++) x = x * 0.999 + 0.5;
        values[i] = now() - start;
    }
    double median = at(values, WORKS, 0.5);
    printf("}, \"copy_bytes_per_s\": %.0f, \"work\": {\"median_us\": %.3f, \"p99_over_median\": %.4f, \"largest_over_median\": %.4f}}\n", COPY / copy_us * 1e6, median,
           at(values, WORKS, 0.99) / median, at(values, WORKS, 1.0) / median);
    return 0;
}
