/* commands.c - from a call that enqueues a command to the row that tells when it ran.
 *
 * Every command that runs gets a callback, which notes the time and hands it over; one thread of the layer reads the four times
 * of the command's profile, puts them on the host's clock and writes the row.
 *
 * Clocks.  A device's profile has a clock of its own.  The runtime may tell both clocks at once (clGetDeviceAndHostTimer); else
 * every command bounds the offset between them: it was not queued before its call began nor after that returned, and had ended
 * when its callback ran.  The offset moves only when it falls outside such bounds, and then just inside.
 */
#define _GNU_SOURCE
#include "layer.h"

#include "clock.h"
#include "link.h"

#include <inttypes.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef LAST_WAIT_MS
#define LAST_WAIT_MS 1000 /* how long the end of the program waits for a command to finish; less in tests */
#endif
enum { LOOKS = 15, NAP_NS = 5000000, REST_MS = 200 };
enum { LOOK_AGAIN_NS = 100000000, WORTH_TELLING_NS = 100 };
/* What a command in flight takes: its record here, and as much again for its event. */
enum { COMMAND_BYTES = 2 * sizeof(struct command) };

struct _cl_icd_dispatch runtime;
atomic_int recording;

/* ---- clocks ---- */

/* One thread at a time turns finished commands into rows and learns from them about clocks. */
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

static void clock_tell(struct device *device, int64_t at)
{
    int64_t above = device->high - device->offset, below = device->offset - device->low;
    device->told = device->offset;
    output_begin();
    output_fact("deviceclock %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %s", device->number, at, -device->offset,
                above > below ? above : below, device->timer ? "timer" : "commands");
    output_end();
}

/* Bounds of the offset as just seen. */
static void clock_bound(struct device *device, int64_t low, int64_t high)
{
    if (low > high) return;
    int64_t before = device->offset, offset = before;
    if (!device->aligned) offset = low + (high - low) / 2;
    else if (before < low) offset = low;
    else if (before > high) offset = high;
    /* bounds hold when they were seen: older, narrower ones stay only while the offset they gave does */
    if (!device->aligned || offset != before || high - low < device->high - device->low) device->low = low, device->high = high;
    device->offset = offset;
    int64_t moved = offset > device->told ? offset - device->told : device->told - offset;
    if (!device->aligned || moved > WORTH_TELLING_NS) {
        device->aligned = 1;
        clock_tell(device, clock_now());
    }
}

/* Asks the runtime for both clocks; the narrowest of some looks.  Returns whether it can tell. */
static int clock_timer(struct device *device, int looks)
{
    int64_t low = INT64_MIN, high = INT64_MAX;
    for (int i = 0; i < looks; i++) {
        cl_ulong there = 0, here = 0;
        int64_t before = clock_now();
        if (!runtime.clGetDeviceAndHostTimer || runtime.clGetDeviceAndHostTimer(device->handle, &there, &here) != CL_SUCCESS) return 0;
        int64_t after = clock_now();
        if (!there) return 0;
        if (before - (int64_t)there > low) low = before - (int64_t)there;
        if (after - (int64_t)there < high) high = after - (int64_t)there;
    }
    device->timer = 1;
    clock_bound(device, low, high);
    return 1;
}

int profile_of(cl_event event, int64_t times[4])
{
    static const cl_profiling_info what[4] = { CL_PROFILING_COMMAND_QUEUED, CL_PROFILING_COMMAND_SUBMIT, CL_PROFILING_COMMAND_START,
                                               CL_PROFILING_COMMAND_END };
    for (int i = 0; i < 4; i++) {
        cl_ulong time = 0;
        int known = runtime.clGetEventProfilingInfo(event, what[i], sizeof time, &time, NULL) == CL_SUCCESS && time;
        if (!known && i >= 2) return 0;
        times[i] = known ? (int64_t)time : NONE;
    }
    return 1;
}

/* The first that is known: it is no earlier than the call. */
static int64_t first_of(const int64_t times[4]) { return times[0] != NONE ? times[0] : times[1] != NONE ? times[1] : times[2]; }

/* Markers on the still empty queue bound the offset where the runtime does not tell it. */
static void clock_markers(struct queue *queue)
{
    int64_t low = INT64_MIN, high = INT64_MAX, times[4];
    for (int i = 0; i < LOOKS; i++) {
        cl_event event = NULL;
        int64_t before = clock_now();
        cl_int result = runtime.clEnqueueMarkerWithWaitList ? runtime.clEnqueueMarkerWithWaitList(queue->handle, 0, NULL, &event)
                                                            : runtime.clEnqueueMarker(queue->handle, &event);
        int64_t after = clock_now();
        if (result != CL_SUCCESS) return;
        int known = runtime.clWaitForEvents(1, &event) == CL_SUCCESS && profile_of(event, times);
        int64_t ended = clock_now();
        runtime.clReleaseEvent(event);
        if (!known) return;
        if (before - first_of(times) > low) low = before - first_of(times);
        if (times[0] != NONE && after - times[0] < high) high = after - times[0];
        if (ended - times[3] < high) high = ended - times[3];
    }
    clock_bound(queue->device, low, high);
}

void clock_first_look(struct queue *queue)
{
    struct device *device = queue->device;
    /* the lock is not given back at the end of the recording */
    while (pthread_mutex_trylock(&writing)) {
        const struct timespec moment = { 0, 100000 };
        if (!recording) return;
        nanosleep(&moment, NULL);
    }
    if (!device->aligned && queue->profiled) {
        device->looked = clock_now();
        if (!clock_timer(device, LOOKS)) clock_markers(queue);
    }
    pthread_mutex_unlock(&writing);
}

/* ---- enqueuing ---- */

static atomic_llong pending, finished_count, failed_count, untimed, dropped, working_ns;
static int64_t most_pending = INT64_MAX, flush_ns = INT64_MAX;

static void event_row(int64_t number, int64_t stream, int64_t context, int64_t device)
{
    struct row row;
    row_begin(&row, 'E');
    row.corr = row.event = row.evsync = number;
    row.stream = stream, row.ctx = context, row.dev = device;
    output_row(&row);
}

static void wait_row(const struct call *call, int what, int64_t context, int64_t stream, int64_t event)
{
    struct row row;
    row_begin(&row, 'Y');
    row.start = call->begin, row.end = call->end, row.corr = call->number, row.tid = thread_number();
    row.what = what, row.ctx = context, row.stream = stream, row.event = row.evsync = event;
    output_row(&row);
}

/* Numbers of the events that a command or call waits for, each with its row in the file; returns how many are known. */
static size_t waits_known(int64_t *numbers, cl_uint count, const cl_event *list)
{
    size_t known = 0;
    objects_begin();
    for (cl_uint i = 0; i < count; i++) {
        struct event *event = event_of(list[i]);
        if (!event) continue;
        numbers[known++] = event->number;
        if (event->told || event->stream == NONE) continue;
        event->told = 1;
        output_begin();
        event_row(event->number, event->stream, event->context, event->device);
        output_end();
    }
    objects_end();
    return known;
}

/* A queue that was made where the layer could not see it. */
static void queue_adopt(cl_command_queue handle)
{
    cl_context context = NULL;
    cl_device_id device = NULL;
    cl_command_queue_properties properties = 0;
    if (runtime.clGetCommandQueueInfo(handle, CL_QUEUE_CONTEXT, sizeof context, &context, NULL) != CL_SUCCESS
        || runtime.clGetCommandQueueInfo(handle, CL_QUEUE_DEVICE, sizeof device, &device, NULL) != CL_SUCCESS
        || runtime.clGetCommandQueueInfo(handle, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL) != CL_SUCCESS)
        return;
    struct device *known = device_add(device);
    struct queue *queue = known ? queue_add(handle, context, known) : NULL;
    if (!queue) return;
    queue->ordered = !(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    queue->profiled = queue->asked = !!(properties & CL_QUEUE_PROFILING_ENABLE);
    unseen("a command queue made outside the layer: its commands have times only if the program asked for them");
}

struct command *command_begin(const char *name, enum call_class class, char kind, cl_command_queue queue, cl_uint count, const cl_event *waits)
{
    if (!recording && !delay_wanted()) return NULL;
    struct command *command = pending < most_pending ? calloc(1, sizeof *command) : NULL;
    if (!command) {
        dropped++;
        return NULL;
    }
    command->kind = kind, command->queue = queue;
    command->waits = command->few_waits;
    if (!recording) {
        command->call = call_begin(name, class);
        return command;
    }
    objects_begin();
    int known = queue_of(queue) != NULL;
    objects_end();
    if (!known && queue) queue_adopt(queue);
    command->name = command->what = command->bytes = command->blocks = command->threads = NONE;
    if (count > 8) command->waits = malloc(count * sizeof *command->waits);
    if (!command->waits) count = 0;
    if (count && waits) command->wait_count = waits_known(command->waits, count, waits);
    command->call = call_begin(name, class);
    return command;
}

cl_event *command_slot(struct command *command, cl_event *asked)
{
    if (!command || command->kind == 'E' || !command->call.number) return asked;
    /* of a copy that is to end later the program gets another event */
    if (asked && (command->blocking || !link_crosses(command))) return asked;
    return &command->event;
}

static void command_free(struct command *command)
{
    if (command->waits != command->few_waits) free(command->waits);
    free(command);
}

/* All commands of an unordered queue before a marker or barrier without a list: it waits for each of them. */
static void wait_for_all(struct command *command, struct queue *queue, const struct lane *own)
{
    for (size_t i = 0; i < queue->lane_count; i++) {
        struct lane *lane = &queue->lanes[i];
        if (lane == own || lane->last == NONE || lane->free) continue;
        if (!lane->last_told) event_row(lane->last, lane->stream, queue->context, queue->device->number);
        lane->last_told = 1;
        wait_row(&command->call, WAIT_STREAM_FOR_EVENT, queue->context, own->stream, lane->last);
    }
}

/* Gives the command its place and writes the rows of its call. */
static void command_place(struct command *command, struct queue *queue)
{
    int unordered = !queue->ordered;
    struct lane *lane = command->barrier && queue->lane_count ? &queue->lanes[0]
                                                              : lane_for(queue, command->waits, command->wait_count, command->alone && unordered);
    output_begin();
    call_row(&command->call, CL_SUCCESS);
    command->device = queue->device, command->context = queue->context, command->stream = lane ? lane->stream : NONE;
    for (size_t i = 0; i < command->wait_count; i++)
        wait_row(&command->call, WAIT_STREAM_FOR_EVENT, queue->context, command->stream, command->waits[i]);
    if (lane && unordered) {
        if (queue->barrier != NONE && lane->barrier != queue->barrier)
            wait_row(&command->call, WAIT_STREAM_FOR_EVENT, queue->context, lane->stream, queue->barrier);
        lane->barrier = queue->barrier;
        if (command->alone && !command->wait_count) wait_for_all(command, queue, lane);
    }
    if (lane) lane->last = command->call.number, lane->last_told = command->kind == 'E', lane->free = command->blocking;
    if (command->barrier && unordered && lane) {
        queue->barrier = lane->barrier = command->call.number;
        for (size_t i = 0; i < queue->lane_count; i++) queue->lanes[i].free = 1;
    }
    if (command->kind == 'E') {
        event_row(command->call.number, command->stream, command->context, queue->device->number);
        if (command->blocking) wait_row(&command->call, WAIT_EVENT, queue->context, NONE, command->call.number);
    }
    output_end();
}

static void CL_CALLBACK command_finished(cl_event event, cl_int status, void *data);

static struct device *device_of(cl_command_queue handle)
{
    objects_begin();
    const struct queue *queue = queue_of(handle);
    struct device *device = queue ? queue->device : NULL;
    objects_end();
    return device;
}

/* Has the command told of its end; returns whether the runtime will. */
static int command_watch(struct command *command)
{
    cl_event event = command->event;
    pending++;
    if (runtime.clSetEventCallback(event, CL_COMPLETE, command_finished, command) == CL_SUCCESS) return 1;
    pending--;
    untimed++;
    runtime.clReleaseEvent(event);
    command_free(command);
    return 0;
}

/* Of a copy that ends later: has its end told, and puts the gate behind it, whose event is the program's. */
static void command_hold(struct command *command, int ordered, cl_event *asked, struct event about)
{
    struct gate *gate = command->gate;
    cl_event copy = command->event, opens = gate_event(gate), closed = NULL;
    cl_command_queue queue = command->queue;
    runtime.clRetainEvent(copy);
    runtime.clRetainEvent(opens);
    int held = command_watch(command);
    if (!held) gate_drop(gate);
    else held = gate_close(queue, ordered, copy, opens, asked ? &closed : NULL);
    runtime.clReleaseEvent(opens);
    if (asked) {
        *asked = held ? closed : copy;
        about.copy = held ? copy : NULL;
        event_add(*asked, &about);
    } else runtime.clReleaseEvent(copy);
}

cl_int command_end(struct command *command, cl_int result, cl_event *asked)
{
    if (!command) return result;
    int crosses = result == CL_SUCCESS && command->call.number && recording && link_crosses(command);
    if (crosses && command->blocking) link_wait(command, device_of(command->queue), asked ? *asked : command->event);
    call_return(&command->call);
    struct call call = command->call;
    objects_begin();
    struct queue *queue = result == CL_SUCCESS && recording ? queue_of(command->queue) : NULL;
    if (queue) command_place(command, queue);
    int ordered = queue && queue->ordered;
    objects_end();
    if (!queue) {
        call_done(&call, result);
        if (result == CL_SUCCESS && command->event) runtime.clReleaseEvent(command->event);
        command_free(command);
        return result;
    }
    int runs = command->kind != 'E';
    struct event about = { call.number, command->stream, command->context, command->device->number, command->queue, 1, !runs, runs, NULL };
    if (crosses && !command->blocking) {
        command->gate = gate_make(command, command->device);
        if (!command->gate) link_missed();
        if (!command->gate && asked) *asked = command->event;
    }
    if (command->gate) {
        about.held = 0;
        command_hold(command, ordered, asked, about);
        delay_after(&call);
        return result;
    }
    if (asked) {
        if (runs) runtime.clRetainEvent(*asked);
        command->event = *asked;
        event_add(*asked, &about);
    }
    if (!runs) command_free(command);
    else command_watch(command);
    delay_after(&call);
    return result;
}

/* ---- waiting ---- */

void wait_for_events_tell(struct call *call, cl_int result, cl_uint count, const cl_event *list)
{
    call_return(call);
    objects_begin();
    output_begin();
    call_row(call, result);
    for (cl_uint i = 0; i < count; i++) {
        struct event *event = event_of(list[i]);
        if (!event) continue;
        if (!event->told && event->stream != NONE) event_row(event->number, event->stream, event->context, event->device);
        event->told = 1;
        wait_row(call, WAIT_EVENT, event->context, NONE, event->number);
        struct queue *queue = queue_of(event->queue);
        if (queue && result == CL_SUCCESS) lane_waited(queue, event->number);
    }
    output_end();
    objects_end();
    delay_after(call);
}

void wait_for_queue_tell(struct call *call, cl_int result, cl_command_queue handle)
{
    call_return(call);
    objects_begin();
    struct queue *queue = queue_of(handle);
    output_begin();
    call_row(call, result);
    for (size_t i = 0; queue && i < queue->lane_count; i++) {
        struct lane *lane = &queue->lanes[i];
        if (i == 0) wait_row(call, WAIT_STREAM, queue->context, lane->stream, NONE);
        else if (lane->last != NONE && !lane->free) {
            if (!lane->last_told) event_row(lane->last, lane->stream, queue->context, queue->device->number);
            lane->last_told = 1;
            wait_row(call, WAIT_EVENT, queue->context, NONE, lane->last);
        }
        if (result == CL_SUCCESS) lane->free = 1;
    }
    output_end();
    objects_end();
    delay_after(call);
}

/* ---- finishing ---- */

static pthread_mutex_t hand_over = PTHREAD_MUTEX_INITIALIZER;
static struct command *finished_first, **finished_last = &finished_first;
static atomic_int stopping, resting;

/* The thread sleeps on a word of its own: a wait by an own condition or descriptor would hang on what the program does to clocks. */
static void nap(int64_t milliseconds)
{
    const struct timespec pause = { milliseconds / 1000, milliseconds % 1000 * 1000000 };
    syscall(SYS_futex, &resting, FUTEX_WAIT_PRIVATE, 1, &pause, NULL, 0);
}

/* Only from the long rest: while commands are in flight it looks often enough by itself. */
static void wake(void)
{
    if (resting && atomic_exchange(&resting, 0)) syscall(SYS_futex, &resting, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Called by the runtime, on a thread of its own. */
static void CL_CALLBACK command_finished(cl_event event, cl_int status, void *data)
{
    struct command *command = data;
    (void)event;
    command->finished = clock_now();
    command->status = status;
    if (command->gate) gate_finished(command->gate, status, command->finished);
    command->next = NULL;
    pthread_mutex_lock(&hand_over);
    *finished_last = command;
    finished_last = &command->next;
    pthread_mutex_unlock(&hand_over);
    wake();
}

static void command_row(struct command *command, const int64_t times[4], int known)
{
    const struct device *device = command->device;
    struct row row;
    row_begin(&row, command->kind);
    row.corr = command->call.number, row.dev = device->number, row.ctx = command->context, row.stream = command->stream;
    if (known && device->aligned) {
        if (times[0] != NONE) row.queued = times[0] + device->offset;
        if (times[1] != NONE) row.submitted = times[1] + device->offset;
        row.start = times[2] + device->offset, row.end = times[3] + device->offset;
    } else untimed++;
    row.what = command->what;
    if (command->kind == 'K') row.name = command->name, row.blocks = command->blocks, row.threads = command->threads;
    else row.bytes = command->bytes, row.dst = command->target;
    if (command->kind == 'C') row.src = command->source, row.ret = command->flags;
    output_begin();
    output_row(&row);
    output_end();
}

/* What the commands of one collection say of a device's clock: bounds if there is no timer, else whether the two agree. */
static void clock_learn(struct device *device, const struct command *first, int64_t (*times)[4], const char *known)
{
    int64_t low = INT64_MIN, high = INT64_MAX;
    size_t i = 0;
    for (const struct command *command = first; command; command = command->next, i++) {
        if (command->device != device || !known[i]) continue;
        if (command->call.begin - first_of(times[i]) > low) low = command->call.begin - first_of(times[i]);
        if (times[i][0] != NONE && command->call.end - times[i][0] < high) high = command->call.end - times[i][0];
        if (command->finished - times[i][3] < high) high = command->finished - times[i][3];
    }
    if (low != INT64_MIN && !device->timer) clock_bound(device, low, high);
    for (i = 0; first; first = first->next, i++) {
        if (first->device != device || !known[i] || !device->aligned) continue;
        int64_t early = first->call.begin - (first_of(times[i]) + device->offset), late = times[i][3] + device->offset - first->finished;
        if (times[i][0] != NONE && times[i][0] + device->offset - first->call.end > late) late = times[i][0] + device->offset - first->call.end;
        int64_t off = early > late ? early : late;
        if (off < 0) off = 0;
        device->commands++;
        device->outside += off > 0;
        if (off > device->worst) device->worst = off;
    }
}

static void command_done(struct command *command, int64_t times[4], int known)
{
    if (recording) {
        if (command->status < 0) failed_count++;
        else command_row(command, times, known);
    }
    objects_begin();
    struct event *event = event_of(command->event);
    if (event && event->number == command->call.number) event->held = 0;
    objects_end();
    runtime.clReleaseEvent(command->event);
    command_free(command);
    pending--;
    finished_count++;
}

enum { BATCH = 256 };

static void commands_batch(struct command *first)
{
    int64_t times[BATCH][4];
    char known[BATCH];
    size_t i = 0;
    for (struct command *command = first; command; command = command->next, i++)
        known[i] = command->status >= 0 && profile_of(command->event, times[i]);
    struct device *device;
    for (i = 0; (device = device_at(i)); i++) clock_learn(device, first, times, known);
    for (i = 0; first; i++) {
        struct command *next = first->next;
        command_done(first, times[i], known[i]);
        first = next;
    }
}

void commands_collect(void)
{
    /* to let go of an event may call the program back, and that may release what calls us again: who finds it busy goes on */
    if (pthread_mutex_trylock(&writing)) return;
    for (;;) {
        pthread_mutex_lock(&hand_over);
        struct command *first = finished_first, *last = first;
        for (int i = 1; last && last->next && i < BATCH; i++) last = last->next;
        if (last) {
            finished_first = last->next;
            if (!finished_first) finished_last = &finished_first;
            last->next = NULL;
        }
        pthread_mutex_unlock(&hand_over);
        if (!first) break;
        commands_batch(first);
    }
    pthread_mutex_unlock(&writing);
}

static void *commands_thread(void *unused)
{
    int64_t flushed = clock_now();
    struct device *device;
    while (!stopping) {
        if (pending) {
            const struct timespec pause = { 0, NAP_NS };
            nanosleep(&pause, NULL);
        } else {
            atomic_store(&resting, 1);
            if (!pending && !stopping) nap(REST_MS);
            atomic_store(&resting, 0);
        }
        commands_collect();
        int64_t now = clock_now();
        if (now - flushed > flush_ns) {
            output_flush();
            flushed = now;
        }
        pthread_mutex_lock(&writing);
        for (size_t i = 0; recording && (device = device_at(i)); i++)
            if (device->timer && pending && now - device->looked > LOOK_AGAIN_NS) {
                clock_timer(device, 3);
                device->looked = now;
            }
        pthread_mutex_unlock(&writing);
        struct timespec used;
        if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) == 0) working_ns = (long long)used.tv_sec * 1000000000 + used.tv_nsec;
    }
    return unused;
}

static void thread_start(void)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the program's */
    if (pthread_create(&thread, NULL, commands_thread, NULL) == 0) pthread_detach(thread);
    else say("no thread for the recording: commands are written at the end only");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void commands_start(int64_t memory_bytes, int64_t flush_period_ns)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    most_pending = memory_bytes / COMMAND_BYTES;
    if (flush_period_ns) flush_ns = flush_period_ns;
    pthread_once(&once, thread_start);
}

void commands_stop(void)
{
    /* as long as commands keep finishing; one that never does is not waited for */
    int64_t seen = -1, since = clock_now();
    while (pending && clock_now() - since < (int64_t)LAST_WAIT_MS * 1000000) {
        struct timespec moment = { 0, 1000000 };
        commands_collect();
        if (finished_count != seen || gates_waiting()) seen = finished_count, since = clock_now();
        if (pending) nanosleep(&moment, NULL);
    }
    commands_collect();
    stopping = 1;
    gates_stop();
    wake();
    pthread_mutex_lock(&writing); /* not given back: what finishes later is not written */
    recording = 0;
    struct device *device;
    output_begin();
    for (size_t i = 0; (device = device_at(i)); i++)
        output_fact("clockcheck %" PRId64 " %" PRIu64 " %" PRIu64 " %" PRId64, device->number, device->commands, device->outside, device->worst);
    if (pending) output_fact("unseen %lld commands that were not finished when the program ended", (long long)pending);
    if (failed_count) output_fact("unseen %lld commands that ended with an error", (long long)failed_count);
    output_fact("untimed %lld", (long long)untimed);
    output_fact("dropped %lld", (long long)dropped);
    output_fact("cost writing_ns=%lld", (long long)working_ns);
    output_end();
}
