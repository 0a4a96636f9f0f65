/* link.c - a slower link: copies between host and device that end later than they did.
 *
 * A blocking copy is over when its call returns: the call waits.  Behind any other a barrier goes into the same queue (a marker, where
 * the queue has no order), which waits for an event of the layer: that is set once the copy has ended and what is missing has passed.
 * The host goes on meanwhile; what comes behind the copy in its queue waits for the barrier.  The program's event is the
 * barrier's, so that what waits for the copy waits for its later end; of what the program asks of it, its kind and its profile are
 * the copy's own. */
#define _GNU_SOURCE
#include "layer.h"

#include "clock.h"
#include "link.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A sleep ends late by about this much; what is left is spun.  [ns] */
enum { CALLERS_SPIN_NS = 150000, SPIN_NS = 60000 };
/* A gate delays by itself, by a callback and an event: a copy that lacks less than this is let through.  [ns] */
enum { LEAST_NS = 10000 };

struct gate {
    struct gate *next;
    cl_event copy, opens; /* a hold on each */
    struct device *device;
    enum link_direction direction;
    int64_t bytes, finished, ended, missing;
    cl_int status;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gate *arrived; /* gates whose copy has ended, as the callbacks bring them */
static _Atomic uint32_t bell;
static atomic_llong open_later;
static atomic_int started, stopped;

/* ---- which, and how long ---- */

int link_crosses(const struct command *command)
{
    if (!link_limited() || command->kind != 'C' || command->bytes <= 0) return 0;
    return command->what == HOST_TO_DEVICE || command->what == DEVICE_TO_HOST || command->what == HOST_TO_ARRAY || command->what == ARRAY_TO_HOST;
}

static enum link_direction direction_of(const struct command *command)
{
    return command->what == HOST_TO_DEVICE || command->what == HOST_TO_ARRAY ? TO_DEVICE : TO_HOST;
}

/* When a copy ended by the host's clock, at the latest `seen`, and what it lacks; 0 where its profile is not known. */
static int measure(cl_event copy, const struct device *device, int64_t bytes, int64_t seen, int64_t *ended, int64_t *missing)
{
    int64_t times[4];
    if (!profile_of(copy, times)) return 0;
    *missing = link_missing(bytes, times[3] - times[2]);
    *ended = device && device->aligned && times[3] + device->offset < seen ? times[3] + device->offset : seen;
    return 1;
}

void link_wait(const struct command *command, struct device *device, cl_event copy)
{
    int64_t seen = clock_now(), ended, missing, now = seen;
    if (!measure(copy, device, command->bytes, seen, &ended, &missing)) {
        link_missed();
        return;
    }
    while (ended + missing - now > CALLERS_SPIN_NS) {
        int64_t left = ended + missing - now - CALLERS_SPIN_NS;
        const struct timespec pause = { left / 1000000000, left % 1000000000 };
        nanosleep(&pause, NULL);
        now = clock_now();
    }
    if (now < ended + missing) now = clock_spin(ended, missing);
    link_count(direction_of(command), command->bytes, missing, missing ? now - ended : 0);
}

/* ---- the thread that opens gates ---- */

static void gate_free(struct gate *gate)
{
    runtime.clReleaseEvent(gate->opens);
    runtime.clReleaseEvent(gate->copy);
    free(gate);
}

static void gate_open(struct gate *gate)
{
    int64_t now = clock_now();
    if (gate->missing >= 0) link_count(gate->direction, gate->bytes, gate->missing, gate->missing ? now - gate->ended : 0);
    else if (gate->status >= 0) link_missed();
    runtime.clSetUserEventStatus(gate->opens, gate->status < 0 ? gate->status : CL_COMPLETE);
    gate_free(gate);
    open_later--;
}

static int64_t due(const struct gate *gate) { return gate->missing > 0 ? gate->ended + gate->missing : 0; }

/* Takes over what has arrived, in the order in which the gates are to open. */
static void gates_sort(struct gate **first)
{
    pthread_mutex_lock(&lock);
    struct gate *fresh = arrived;
    arrived = NULL;
    pthread_mutex_unlock(&lock);
    while (fresh) {
        struct gate *gate = fresh, **place = first;
        fresh = gate->next;
        gate->missing = -1;
        if (gate->status >= 0 && !measure(gate->copy, gate->device, gate->bytes, gate->finished, &gate->ended, &gate->missing))
            gate->missing = -1;
        while (*place && due(*place) <= due(gate)) place = &(*place)->next;
        gate->next = *place;
        *place = gate;
    }
}

static void *gates_thread(void *unused)
{
    struct gate *first = NULL;
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    while (!stopped) {
        uint32_t heard = bell;
        gates_sort(&first);
        int64_t left = first ? due(first) - clock_now() : INT64_MAX;
        if (left <= 0) {
            struct gate *gate = first;
            first = gate->next;
            gate_open(gate);
        } else if (left > SPIN_NS) {
            int64_t nap = left - SPIN_NS;
            const struct timespec pause = { nap / 1000000000, nap % 1000000000 };
            syscall(SYS_futex, &bell, FUTEX_WAIT_PRIVATE, heard, first ? &pause : NULL, NULL, 0);
        } /* else it spins */
    }
    return unused;
}

static void gates_start(void)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the program's */
    started = pthread_create(&thread, NULL, gates_thread, NULL) == 0;
    if (started) pthread_detach(thread);
    else say("no thread for the slower link: copies that do not block are not limited");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- gates ---- */

struct gate *gate_make(const struct command *command, struct device *device)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    cl_context context = NULL;
    cl_int result = CL_SUCCESS;
    if (link_missing(command->bytes, 0) < LEAST_NS) return NULL;
    pthread_once(&once, gates_start);
    if (!started || runtime.clGetCommandQueueInfo(command->queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL) != CL_SUCCESS) return NULL;
    struct gate *gate = calloc(1, sizeof *gate);
    if (!gate) return NULL;
    *gate = (struct gate){ .copy = command->event, .device = device, .direction = direction_of(command), .bytes = command->bytes };
    gate->opens = runtime.clCreateUserEvent(context, &result);
    if (result != CL_SUCCESS) {
        free(gate);
        return NULL;
    }
    runtime.clRetainEvent(gate->copy);
    return gate;
}

void gate_drop(struct gate *gate)
{
    link_missed();
    gate_free(gate);
}

/* Called by the runtime, on a thread of its own. */
void gate_finished(struct gate *gate, cl_int status, int64_t finished)
{
    gate->status = status, gate->finished = finished;
    open_later++;
    pthread_mutex_lock(&lock);
    gate->next = arrived;
    arrived = gate;
    pthread_mutex_unlock(&lock);
    bell++;
    syscall(SYS_futex, &bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

int gate_close(cl_command_queue queue, int ordered, cl_event copy, cl_event opens, cl_event *asked)
{
    const cl_event both[2] = { opens, copy };
    cl_int result = ordered ? runtime.clEnqueueBarrierWithWaitList(queue, 2, both, asked)
                            : runtime.clEnqueueMarkerWithWaitList(queue, 2, both, asked);
    if (result != CL_SUCCESS) link_missed();
    return result == CL_SUCCESS;
}

cl_event gate_event(const struct gate *gate) { return gate->opens; }

int gates_waiting(void) { return open_later > 0; }

void gates_stop(void)
{
    stopped = 1;
    bell++;
    syscall(SYS_futex, &bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
