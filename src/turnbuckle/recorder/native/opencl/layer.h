/* layer.h - shared by the parts of the OpenCL layer: the runtime below it, tables of the program's objects, and the commands in flight.
 * docs/record-opencl.md says what is recorded.
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

/* 1 while records are taken; 0 before the file is open, after the end, and in children of fork. */
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

/* Reads the settings of delays (slack.h) from the environment.  Returns NULL, or the sentence that says what is wrong. */
const char *delay_settings(void);
/* Returns whether calls are watched (a delay of 0 counts them). */
int delay_wanted(void);
/* Write the facts at the begin and at the end of a file.  Between output_begin and output_end. */
void delay_tell_settings(void);
void delay_tell_totals(void);

/* The steps of a call of the runtime, in this order: number and delay before it, end, row, delay after it. */
struct call call_begin(const char *name, enum call_class class);
void call_return(struct call *call);
void call_row(const struct call *call, cl_int result); /* between output_begin and output_end */
void delay_after(const struct call *call);
/* Ends a call that starts nothing on a device: all steps after its return.  Returns `result`. */
cl_int call_done(struct call *call, cl_int result);
/* Returns the number of the calling thread. */
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

/* A stream holds commands that are in order: an ordered queue, or one chain of commands of another queue. */
struct lane {
    int64_t stream, last, barrier; /* number of the last command, and of the last barrier waited for; NONE */
    int last_told, free;           /* whether an event row names the last command; whether the next command may follow it */
};

struct queue {
    cl_command_queue handle;
    int64_t context;
    struct device *device;
    int ordered, profiled, asked; /* asked: the program wanted profiling itself */
    unsigned uses;
    struct lane *lanes;
    size_t lane_count;
    int64_t barrier; /* number of the last barrier, or NONE */
    int listed;                 /* made with a list of properties: `given`, as the program gave it, closing 0 included */
    cl_queue_properties *given;
    size_t given_bytes;
};

struct event {
    int64_t number, stream, context, device; /* stream NONE: a user event */
    cl_command_queue queue; /* may have been released: ask queue_of, and compare numbers */
    unsigned uses;          /* references of the program */
    int told, held;         /* whether an event row names it; whether the layer holds a reference too */
    cl_event copy;          /* the event of a copy that a slower link ends later, with a reference to it; else NULL */
};

/* Locks the tables that the following functions read and write. */
void objects_begin(void);
void objects_end(void);
/* Frees the lock in a child of fork, where the thread that held it does not exist. */
void objects_in_child(void);

int64_t context_number(cl_context context, int fresh);
struct device *device_known(cl_device_id handle);
struct device *device_add(cl_device_id handle);
struct device *device_at(size_t index);

struct queue *queue_of(cl_command_queue handle);
struct queue *queue_add(cl_command_queue handle, cl_context context, struct device *device);
void queue_retained(cl_command_queue handle);
void queue_released(cl_command_queue handle);
/* Returns the stream of a command that waits for `waits`: that of one of them (not if `alone`: commands behind them need not wait for
 * it), or one whose commands the host knows to be done, or a new one, which is written to the file. */
struct lane *lane_for(struct queue *queue, const int64_t *waits, size_t count, int alone);
void lane_waited(struct queue *queue, int64_t number);

struct event *event_of(cl_event handle);
void event_add(cl_event handle, const struct event *event);
void event_retained(cl_event handle);
void event_released(cl_event handle);
/* Returns the event of a copy that a slower link ends later; NULL for any other event. */
cl_event event_copy(cl_event handle);

/* Note and return the name of a kernel; a runtime may use its handle again for another one. */
void kernel_named(cl_kernel kernel);
int64_t kernel_name(cl_kernel kernel);

/* Memory objects by their handles, each with a number and its flags; memory_add returns the number. */
struct memory { int64_t number, bytes; cl_mem_flags flags; unsigned uses; enum memory_kind kind; };
struct memory *memory_of(cl_mem handle);
int64_t memory_add(cl_mem handle, const struct memory *memory);
void memory_retained(cl_mem handle);
int memory_released(cl_mem handle, struct memory *gone);

/* Regions of host memory that are mapped or shared virtual memory. */
struct region { char *from; size_t bytes; cl_mem owner; cl_ulong flags; enum memory_kind kind; int64_t number; };
void region_add(const struct region *region);
int region_take(const void *from, cl_mem owner, struct region *found);
int region_at(const void *pointer, struct region *found);
void region_forget(cl_mem owner);

/* Returns the kind of memory that a pointer of the program leads to: pageable outside of every region. */
enum memory_kind host_memory(const void *pointer);

/* Writes a row of memory that was allocated (`what` 1) or released (2). */
void memory_row(const struct call *call, int what, int64_t context, int64_t bytes, enum memory_kind kind, int64_t number, int filled);

/* ---- commands ---- */

struct gate;

struct command {
    struct command *next;
    struct call call;
    char kind; /* of its row: K, C, S; E: nothing runs */
    int blocking, barrier, alone; /* barrier: later commands wait for it; alone: in a queue without order it is in a stream of its own */
    cl_command_queue queue;
    struct device *device;
    cl_event event;
    struct gate *gate;
    cl_int status;
    int64_t finished, context, stream, name, what, bytes, source, target, blocks, threads, flags; /* what: copy kind, or work items */
    size_t wait_count;
    int64_t *waits, few_waits[8];
};

/* Reads when a command was queued, submitted, began and ended, by the device's clock.  Some runtimes lack the first two: NONE. */
int profile_of(cl_event event, int64_t times[4]);
/* Begins a command that is about to be enqueued.  Returns NULL where nothing is recorded. */
struct command *command_begin(const char *name, enum call_class class, char kind, cl_command_queue queue, cl_uint count, const cl_event *waits);
/* Begins a copy between two pointers, whose regions give its direction. */
struct command *pointer_copy(const char *name, cl_command_queue queue, cl_bool blocking, const void *to, const void *from, size_t size,
                             cl_uint count, const cl_event *waits);
/* Returns the address for the command's event: the program's own if it asks for the event, else one in the command. */
cl_event *command_slot(struct command *command, cl_event *asked);
/* Ends the enqueueing of a command, which may have been refused.  Returns `result`. */
cl_int command_end(struct command *command, cl_int result, cl_event *asked);
/* Measures offset and error of the device's clock on a queue that has no commands yet. */
void clock_first_look(struct queue *queue);
/* Starts the thread that writes finished commands; once.  Commands in flight take at most `memory_bytes`; further ones are dropped and
 * counted.  What is complete goes to the file every `flush_ns`; 0: when the buffer is full, and at the end. */
void commands_start(int64_t memory_bytes, int64_t flush_ns);
/* Write the Y rows of a call that waited for events, or for a whole queue, and note that the host knows those commands to be done. */
void wait_for_events_tell(struct call *call, cl_int result, cl_uint count, const cl_event *list);
void wait_for_queue_tell(struct call *call, cl_int result, cl_command_queue queue);
/* Writes the commands that are known to be finished. */
void commands_collect(void);
/* Waits a bounded time for the commands in flight; then nothing is recorded any more. */
void commands_stop(void);

/* ---- a slower link, see link.c ---- */

/* Returns whether a command is a copy between host and device that TB_LINK_BANDWIDTH limits. */
int link_crosses(const struct command *command);
/* Waits behind a blocking copy for the time that it would take longer at the limit. */
void link_wait(const struct command *command, struct device *device, cl_event copy);
/* Returns the gate that holds up the commands behind a copy; NULL where that is impossible.  Either gate_finished notes the end of the
 * copy, or gate_drop frees the gate. */
struct gate *gate_make(const struct command *command, struct device *device);
void gate_drop(struct gate *gate);
void gate_finished(struct gate *gate, cl_int status, int64_t finished);
/* Returns the event that opens a gate. */
cl_event gate_event(const struct gate *gate);
/* Puts a gate into the queue, with an event if the program asks for one; returns whether it could. */
int gate_close(cl_command_queue queue, int ordered, cl_event copy, cl_event opens, cl_event *asked);
/* gates_waiting returns whether copies that have ended are still held; after gates_stop no gate is made. */
int gates_waiting(void);
void gates_stop(void);

/* Replaces a function of the runtime, if it has that one, by the layer's; the two functions replace those for memory, and for commands. */
#define OWN(layer, function, own)                                                                                                               \
    if (runtime.function) (layer)->function = own
void memory_take_over(struct _cl_icd_dispatch *layer);
void enqueue_take_over(struct _cl_icd_dispatch *layer);

/* Returns the layer's function in place of an Intel extension that a program looks up by name; NULL for others and for a second runtime. */
void *usm_function(const char *name, void *address);

/* Writes the fact that something was not recorded, once for each text. */
void unseen(const char *text);

#endif
