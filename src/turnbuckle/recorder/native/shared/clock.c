/* clock.c - see clock.h. */
#define _GNU_SOURCE
#include "clock.h"

#include <time.h>

enum { LOOKS = 15 };

static int64_t look(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int64_t clock_now(void) { return look(CLOCK_MONOTONIC); }

int64_t clock_to_utc(int64_t *at, int64_t *width)
{
    int64_t offset = 0;
    *at = 0, *width = INT64_MAX;
    for (int i = 0; i < LOOKS; i++) {
        int64_t before = clock_now(), utc = look(CLOCK_REALTIME), after = clock_now();
        if (after - before >= *width) continue;
        *width = after - before;
        *at = before + *width / 2;
        offset = utc - *at;
    }
    *width = *width / 2 + 1;
    return offset;
}

int64_t clock_spin(int64_t start, int64_t length)
{
    int64_t now;
    while ((now = clock_now()) - start < length) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ __volatile__("yield");
#endif
    }
    return now;
}
