/* awaiting.c - threads that wait for a condition poll for it before they sleep, as a GPU's front end and a host that spins do: to be preloaded.
 *
 * A thread that sleeps is woken through the scheduler, and on a virtual machine through the hypervisor: 20 to 60 us that depend on how long it slept.
 * Here a wait looks for its signal for POLL_NS, giving way to other threads of its core, and sleeps only then.  All waiters wake at a signal, which the
 * interface allows.  The conditions of the C library itself are not touched.
 *
 * Build: cc -O2 -shared -fPIC awaiting.c -o awaiting.so
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { POLL_NS = 20000000, LOOKS = 64 };

/* What a pthread_cond_t holds here: how often it was signalled, how many sleep, and its clock. */
struct condition { _Atomic uint32_t signals, sleepers; int32_t clock; };
_Static_assert(sizeof(struct condition) <= sizeof(pthread_cond_t), "a condition has room for ours");

static struct condition *of(pthread_cond_t *cond) { return (struct condition *)cond; }

static int64_t now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes)
{
    clockid_t clock = CLOCK_REALTIME;
    if (attributes) pthread_condattr_getclock(attributes, &clock);
    memset(cond, 0, sizeof *cond);
    of(cond)->clock = clock;
    return 0;
}

int pthread_cond_destroy(pthread_cond_t *cond)
{
    (void)cond;
    return 0;
}

static int wake(pthread_cond_t *cond)
{
    struct condition *mine = of(cond);
    atomic_fetch_add(&mine->signals, 1);
    if (atomic_load(&mine->sleepers)) syscall(SYS_futex, &mine->signals, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    return 0;
}

int pthread_cond_signal(pthread_cond_t *cond) { return wake(cond); }
int pthread_cond_broadcast(pthread_cond_t *cond) { return wake(cond); }

static int until(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *end)
{
    struct condition *mine = of(cond);
    int64_t last = end ? (int64_t)end->tv_sec * 1000000000 + end->tv_nsec : INT64_MAX, begin = now(CLOCK_MONOTONIC);
    uint32_t seen = atomic_load(&mine->signals);
    int late = 0;
    pthread_mutex_unlock(mutex);
    while (atomic_load(&mine->signals) == seen) {
        for (int i = 0; i < LOOKS && atomic_load_explicit(&mine->signals, memory_order_relaxed) == seen; i++) __builtin_ia32_pause();
        if (atomic_load(&mine->signals) != seen) break;
        if (end && now(clock) >= last) {
            late = 1;
            break;
        }
        if (now(CLOCK_MONOTONIC) - begin < POLL_NS) {
            sched_yield();
            continue;
        }
        int64_t left = end ? last - now(clock) : 1000000000;
        struct timespec most = { left > 0 ? left / 1000000000 : 0, left > 0 ? left % 1000000000 : 0 };
        atomic_fetch_add(&mine->sleepers, 1);
        syscall(SYS_futex, &mine->signals, FUTEX_WAIT_PRIVATE, seen, &most, NULL, 0);
        atomic_fetch_sub(&mine->sleepers, 1);
    }
    pthread_mutex_lock(mutex);
    return late ? ETIMEDOUT : 0;
}

int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex) { return until(cond, mutex, CLOCK_MONOTONIC, NULL); }

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *end)
{
    return until(cond, mutex, of(cond)->clock, end);
}

int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *end)
{
    return until(cond, mutex, clock, end);
}
