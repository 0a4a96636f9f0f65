/* layer.h - what the parts of the OpenCL layer share: the runtime below it, what it knows of the program's objects, and the
 * commands in flight.  docs/record-opencl.md tells what is recorded.
 *
 * While the runtime is called no lock is held that another call of the program may need: the runtime may call the program, and the
 * program the layer.
 */
#ifndef TURNBUCKLE_OPENCL_LAYER_H
#define TURNBUCKLE_OPENCL_LAYER_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#define CL_USE_DEPRECATED_OPENCL_2_1_APIS
#define CL_USE_DEPRECATED_OPENCL_2_2_APIS
#include <CL/cl_layer.h>

#include "output.h"
#include "slack.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* The functions below the layer. */
extern struct _cl_icd_dispatch runtime;

/* Whether records are taken; 0 before the file is open, after the end, and in children of fork. */
extern atomic_int recording;

/* Numbers of copy kinds and memory kinds are CUPTI's, so that one reader reads both. */
enum copy_kind { HOST_TO_DEVICE = 1, DEVICE_TO_HOST, HOST_TO_ARRAY, ARRAY_TO_HOST, ARRAY_TO_ARRAY, ARRAY_TO_DEVICE, DEVICE_TO_ARRAY,
                 DEVICE_TO_DEVICE, HOST_TO_HOST };
enum memory_kind { MEMORY_UNKNOWN, PAGEABLE, PINNED, DEVICE, ARRAY, MANAGED };
enum { NOT_BLOCKING = 1, MAPPED = 256, MIGRATED = 512 };
enum { WAIT_EVENT = 1, WAIT_STREAM_FOR_EVENT, WAIT_STREAM };

/* ---- calls ---- */

#define NAMED(name, blocking) ((blocking) ? name " (blocking)" : name)

struct call {
    const char *name;
    enum call_class class;
    int64_t number, begin, end;
};

/* Which calls wait, how long and when, from TB_SLACK_NS, TB_SLACK_CLASSES and TB_SLACK_WHERE.  Returns NULL, or what is wrong. */
const char *delay_settings(void);
/* Whether calls are watched for it (a delay of 0 counts them). */
int delay_wanted(void);
/* Facts at the begin and at the end.  Between output_begin and output_end. */
void delay_tell_settings(void);
void delay_tell_totals(void);

/* A call of the runtime: its number, the delay before it, its times, its row, the delay after it. */
struct call call_begin(const char *name, enum call_class class);
void call_return(struct call *call);
void call_row(const struct call *call, cl_int result); /* between output_begin and output_end */
void delay_after(const struct call *call);
/* A call that starts nothing on a device: all of that, once it is back.  Returns `result`. */
cl_int call_done(struct call *call, cl_int result);
/* The calling thread. */
int64_t thread_number(void);

/* ---- objects ---- */

struct device {
    cl_device_id handle;
    int64_t number;
    /* the clock, see commands.c: the host's time is the device's plus offset, which lies between low and high */
    int aligned, timer;
    int64_t offset, low, high, told, looked, worst;
    uint64_t commands, outside;
};

/* A stream: commands that are in order.  An ordered queue is one; of other queues each chain of commands is one. */
struct lane {
    int64_t stream, last, barrier; /* number of the last command, and of the last barrier waited for; NONE */
    int last_told, free;           /* whether an event row tells of it; whether what comes next may follow it */
};

struct queue {
    cl_command_queue handle;
    int64_t context;
    struct device *device;
    int ordered, profiled, asked; /* asked: the program wanted profiling itself */
    unsigned uses;
    struct lane *lanes;
    size_t lane_count;
    int64_t barrier; /* number of the last one, or NONE */
    int listed;                 /* made with a list of properties: `given`, as the program gave it, closing 0 included */
    cl_queue_properties *given;
    size_t given_bytes;
};

struct event {
    int64_t number, stream, context, device; /* stream NONE: a user event */
    cl_command_queue queue; /* may be gone: ask queue_of, and compare numbers */
    unsigned uses;          /* of the program */
    int told, held;         /* whether an event row tells of it; whether the layer has a hold on it too */
    cl_event copy;          /* of a copy that a slower link ends later: its own event, with a hold on it; else NULL */
};

/* Locks the tables that the following functions read and write. */
void objects_begin(void);
void objects_end(void);
/* In a child of fork: whoever held the lock is not there. */
void objects_in_child(void);

int64_t context_number(cl_context context, int fresh);
struct device *device_known(cl_device_id handle);
struct device *device_add(cl_device_id handle);
struct device *device_at(size_t index);

struct queue *queue_of(cl_command_queue handle);
struct queue *queue_add(cl_command_queue handle, cl_context context, struct device *device);
void queue_retained(cl_command_queue handle);
void queue_released(cl_command_queue handle);
/* The stream in which a command goes that waits for `waits`: behind one of these (not if `alone`: what follows them need not wait for
 * it), or where the host knows all to be done, or a new one, told in the file. */
struct lane *lane_for(struct queue *queue, const int64_t *waits, size_t count, int alone);
void lane_waited(struct queue *queue, int64_t number);

struct event *event_of(cl_event handle);
void event_add(cl_event handle, const struct event *event);
void event_retained(cl_event handle);
void event_released(cl_event handle);
/* The own event of a copy that a slower link ends later; NULL of any other. */
cl_event event_copy(cl_event handle);

/* Kernels by their names, for a handle that may be used again. */
void kernel_named(cl_kernel kernel);
int64_t kernel_name(cl_kernel kernel);

/* Memory objects: number of one, noted with its flags; -1 where it is not known. */
struct memory { int64_t number, bytes; cl_mem_flags flags; unsigned uses; enum memory_kind kind; };
struct memory *memory_of(cl_mem handle);
int64_t memory_add(cl_mem handle, const struct memory *memory);
void memory_retained(cl_mem handle);
int memory_released(cl_mem handle, struct memory *gone);

/* Host memory with a meaning: mapped regions, and shared virtual memory. */
struct region { char *from; size_t bytes; cl_mem owner; cl_ulong flags; enum memory_kind kind; int64_t number; };
void region_add(const struct region *region);
int region_take(const void *from, cl_mem owner, struct region *found);
int region_at(const void *pointer, struct region *found);
void region_forget(cl_mem owner);

/* The kind of memory a pointer of the program leads to: ordinary where it lies in no region. */
enum memory_kind host_memory(const void *pointer);

/* A row of memory made (1) or released (2). */
void memory_row(const struct call *call, int what, int64_t context, int64_t bytes, enum memory_kind kind, int64_t number, int filled);

/* ---- commands ---- */

struct gate;

struct command {
    struct command *next;
    struct call call;
    char kind; /* of its row: K, C, S; E: nothing runs */
    int blocking, barrier, alone; /* barrier: what follows waits for it; alone: behind no other if the queue has no order */
    cl_command_queue queue;
    struct device *device;
    cl_event event;
    struct gate *gate;
    cl_int status;
    int64_t finished, context, stream, name, what, bytes, source, target, blocks, threads, flags; /* what: copy kind, or work items */
    size_t wait_count;
    int64_t *waits, few_waits[8];
};

/* When a command was queued, submitted, began and ended, by the device's clock; of the first two, some runtimes tell neither: NONE. */
int profile_of(cl_event event, int64_t times[4]);
/* A command is about to be enqueued: NULL where nothing is recorded. */
struct command *command_begin(const char *name, enum call_class class, char kind, cl_command_queue queue, cl_uint count, const cl_event *waits);
/* A copy between two pointers: which way it goes is told by the regions they lie in. */
struct command *pointer_copy(const char *name, cl_command_queue queue, cl_bool blocking, const void *to, const void *from, size_t size,
                             cl_uint count, const cl_event *waits);
/* Where the runtime is to put the command's event: where the program wants it, or in the command itself. */
cl_event *command_slot(struct command *command, cl_event *asked);
/* It was enqueued, or refused.  Returns `result`. */
cl_int command_end(struct command *command, cl_int result, cl_event *asked);
/* Times and what they are worth, on a queue that has no commands yet. */
void clock_first_look(struct queue *queue);
/* Starts the thread that writes finished commands; once.  Commands in flight take at most `memory_bytes`; further ones are dropped and
 * counted.  What is complete goes to the file every `flush_ns`; 0: when the buffer is full, and at the end. */
void commands_start(int64_t memory_bytes, int64_t flush_ns);
/* Y rows of a call that waited: for events, or for all of a queue.  Both also note that the host knows the commands done. */
void wait_for_events_tell(struct call *call, cl_int result, cl_uint count, const cl_event *list);
void wait_for_queue_tell(struct call *call, cl_int result, cl_command_queue queue);
/* Writes the commands that are known to be finished. */
void commands_collect(void);
/* Waits a bounded time for the commands in flight; then nothing is recorded any more. */
void commands_stop(void);

/* ---- a slower link, see link.c ---- */

/* Whether a command is a copy between host and device that TB_LINK_BANDWIDTH limits. */
int link_crosses(const struct command *command);
/* A blocking copy has come back: waits for what is missing. */
void link_wait(const struct command *command, struct device *device, cl_event copy);
/* What holds up what follows a copy: NULL where it cannot be.  Then the copy's end is told by gate_finished, or the gate dropped. */
struct gate *gate_make(const struct command *command, struct device *device);
void gate_drop(struct gate *gate);
void gate_finished(struct gate *gate, cl_int status, int64_t finished);
/* The event that opens it. */
cl_event gate_event(const struct gate *gate);
/* Puts it into the queue, with an event if that is asked for; returns whether it is there. */
int gate_close(cl_command_queue queue, int ordered, cl_event copy, cl_event opens, cl_event *asked);
/* Whether copies that have ended are still held; no more gates are opened. */
int gates_waiting(void);
void gates_stop(void);

/* Puts an own function in the place of the runtime's, if that has one; and all those for memory, and for commands. */
#define OWN(layer, function, own)                                                                                                               \
    if (runtime.function) (layer)->function = own
void memory_take_over(struct _cl_icd_dispatch *layer);
void enqueue_take_over(struct _cl_icd_dispatch *layer);

/* The layer's function for one of Intel's that a program fetches by name; NULL for any other, or for a second runtime's. */
void *usm_function(const char *name, void *address);

/* A fact that the reader must know of: told once a text. */
void unseen(const char *text);

#endif
