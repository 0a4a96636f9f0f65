/* objects.c - the program's OpenCL objects, as far as the recording needs to know them.
 *
 * A handle may be used again once its object is gone: making an object writes over what was known under its handle.  What the
 * program releases for the last time is forgotten, so that the tables are no larger than what the program itself holds.
 */
#define _GNU_SOURCE
#include "layer.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 64, MOST_LANES = 256, MOST_UNSEEN = 256, LONGEST_TEXT = 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void objects_begin(void) { pthread_mutex_lock(&lock); }
void objects_end(void) { pthread_mutex_unlock(&lock); }
void objects_in_child(void) { pthread_mutex_init(&lock, NULL); }

/* ---- handles ---- */

struct slot { const void *key; void *value; }; /* open addressing; key NULL is free, GONE was used */
struct map { struct slot *slots; size_t size, used; };
static const char gone_mark;
#define GONE ((const void *)&gone_mark)

static struct slot *map_slot(const struct map *map, const void *key)
{
    uint64_t hash = (uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u;
    struct slot *free_slot = NULL;
    for (size_t at = (size_t)(hash >> 20) & (map->size - 1);; at = (at + 1) & (map->size - 1)) {
        struct slot *slot = &map->slots[at];
        if (slot->key == key) return slot;
        if (slot->key == GONE && !free_slot) free_slot = slot;
        if (!slot->key) return free_slot ? free_slot : slot;
    }
}

static void *map_get(const struct map *map, const void *key)
{
    if (!map->size || !key) return NULL;
    struct slot *slot = map_slot(map, key);
    return slot->key == key ? slot->value : NULL;
}

static int map_grow(struct map *map)
{
    size_t live = 0;
    for (size_t i = 0; i < map->size; i++) live += map->slots[i].key && map->slots[i].key != GONE;
    struct map more = { NULL, 64, live };
    while (more.size < 4 * (live + 1)) more.size *= 2;
    if (!(more.slots = calloc(more.size, sizeof *more.slots))) return 0;
    for (size_t i = 0; i < map->size; i++)
        if (map->slots[i].key && map->slots[i].key != GONE) *map_slot(&more, map->slots[i].key) = map->slots[i];
    free(map->slots);
    *map = more;
    return 1;
}

/* Puts a value, and gives back the one it takes the place of; the value itself where there is no memory for it. */
static void *map_put(struct map *map, const void *key, void *value)
{
    if (!key) return value;
    if (2 * (map->used + 1) > map->size && !map_grow(map)) return value;
    struct slot *slot = map_slot(map, key);
    void *before = slot->key == key ? slot->value : NULL;
    if (!slot->key) map->used++;
    slot->key = key, slot->value = value;
    return before;
}

static void *map_take(struct map *map, const void *key)
{
    if (!map->size || !key) return NULL;
    struct slot *slot = map_slot(map, key);
    if (slot->key != key) return NULL;
    slot->key = GONE;
    return slot->value;
}

/* ---- what cannot be seen ---- */

void unseen(const char *text)
{
    static char *told[MOST_UNSEEN];
    static int count;
    objects_begin();
    int known = count == MOST_UNSEEN;
    for (int i = 0; i < count && !known; i++) known = strcmp(told[i], text) == 0;
    if (!known && (told[count] = strdup(text))) count++;
    objects_end();
    if (known) return;
    output_begin();
    output_fact("unseen %s", text);
    output_end();
}

/* ---- contexts and devices ---- */

static struct map contexts;
static int64_t context_last, stream_last;
static struct device devices[MOST_DEVICES];
static atomic_size_t device_count;

/* A number; a new one where the handle was just made. */
int64_t context_number(cl_context context, int fresh)
{
    objects_begin();
    int64_t number = (int64_t)(intptr_t)map_get(&contexts, context);
    if (!number || fresh) {
        number = ++context_last;
        map_put(&contexts, context, (void *)(intptr_t)number);
    }
    objects_end();
    return number;
}

struct device *device_known(cl_device_id handle)
{
    for (size_t i = 0; i < device_count; i++)
        if (devices[i].handle == handle) return &devices[i];
    return NULL;
}

struct device *device_at(size_t index) { return index < device_count ? &devices[index] : NULL; }

static void device_fact(const struct device *device, cl_device_info what, const char *key, int64_t factor)
{
    cl_ulong number = 0;
    size_t size = 0;
    /* cl_uint, cl_ulong and size_t are all little-endian numbers here */
    if (runtime.clGetDeviceInfo(device->handle, what, sizeof number, &number, &size) != CL_SUCCESS || size > sizeof number) return;
    output_begin();
    output_fact("device %" PRId64 " %s %" PRIu64, device->number, key, (uint64_t)number * (uint64_t)factor);
    output_end();
}

static void device_text(const struct device *device, cl_device_info what, const char *key)
{
    char text[LONGEST_TEXT];
    if (runtime.clGetDeviceInfo(device->handle, what, sizeof text, text, NULL) != CL_SUCCESS) return;
    text[sizeof text - 1] = 0;
    output_begin();
    output_fact("device %" PRId64 " %s %s", device->number, key, text);
    output_end();
}

static void device_facts(const struct device *device)
{
    cl_device_type type = 0;
    runtime.clGetDeviceInfo(device->handle, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    const char *word = type & CL_DEVICE_TYPE_GPU           ? "gpu"
                       : type & CL_DEVICE_TYPE_CPU         ? "cpu"
                       : type & CL_DEVICE_TYPE_ACCELERATOR ? "accelerator"
                                                           : "custom";
    output_begin();
    output_fact("device %" PRId64 " type %s", device->number, word);
    output_end();
    device_text(device, CL_DEVICE_NAME, "name");
    device_text(device, CL_DEVICE_VENDOR, "vendor");
    device_text(device, CL_DEVICE_VERSION, "version");
    device_text(device, CL_DRIVER_VERSION, "driver");
    device_fact(device, CL_DEVICE_GLOBAL_MEM_SIZE, "memory_bytes", 1);
    device_fact(device, CL_DEVICE_MAX_COMPUTE_UNITS, "units", 1);
    device_fact(device, CL_DEVICE_MAX_CLOCK_FREQUENCY, "clock_hz", 1000000);
    device_fact(device, CL_DEVICE_HOST_UNIFIED_MEMORY, "unified", 1);
    device_fact(device, CL_DEVICE_PROFILING_TIMER_RESOLUTION, "timer_ns", 1);
}

/* The device, with its facts in the file the first time; NULL where there are too many. */
struct device *device_add(cl_device_id handle)
{
    objects_begin();
    struct device *device = device_known(handle);
    int fresh = !device && device_count < MOST_DEVICES;
    if (fresh) {
        device = &devices[device_count];
        memset(device, 0, sizeof *device);
        device->handle = handle, device->number = (int64_t)device_count++;
    }
    objects_end();
    if (fresh) device_facts(device);
    return device;
}

/* ---- queues and their streams ---- */

static struct map queues;

static void stream_tell(const struct queue *queue, const struct lane *lane)
{
    struct row row;
    row_begin(&row, 'R');
    row.dev = queue->device->number, row.ctx = queue->context, row.stream = lane->stream;
    row.what = 2; /* CUDA's "non-blocking": it does not wait for a default stream */
    output_begin();
    output_fact("queue %" PRId64 " %" PRId64 " %s %s", lane->stream, queue->lanes[0].stream, queue->ordered ? "in_order" : "out_of_order",
                queue->profiled ? "profiled" : "unprofiled");
    output_row(&row);
    output_end();
}

static struct lane *lane_new(struct queue *queue)
{
    struct lane *lanes = realloc(queue->lanes, (queue->lane_count + 1) * sizeof *lanes);
    if (!lanes) return queue->lane_count ? &queue->lanes[0] : NULL;
    queue->lanes = lanes;
    struct lane *lane = &lanes[queue->lane_count++];
    *lane = (struct lane){ ++stream_last, NONE, NONE, 0, 0 };
    stream_tell(queue, lane);
    return lane;
}

struct queue *queue_of(cl_command_queue handle) { return map_get(&queues, handle); }

static void queue_free(struct queue *queue)
{
    if (!queue) return;
    free(queue->lanes);
    free(queue->given);
    free(queue);
}

struct queue *queue_add(cl_command_queue handle, cl_context context, struct device *device)
{
    struct queue *queue = calloc(1, sizeof *queue);
    if (!queue) return NULL;
    int64_t number = context_number(context, 0);
    objects_begin();
    *queue = (struct queue){ .handle = handle, .context = number, .device = device, .uses = 1, .barrier = NONE };
    void *before = map_put(&queues, handle, queue);
    queue_free(before);
    if (before == queue) queue = NULL;
    objects_end();
    return queue;
}

void queue_retained(cl_command_queue handle)
{
    objects_begin();
    struct queue *queue = queue_of(handle);
    if (queue) queue->uses++;
    objects_end();
}

void queue_released(cl_command_queue handle)
{
    objects_begin();
    struct queue *queue = queue_of(handle);
    if (queue && --queue->uses == 0) queue_free(map_take(&queues, handle));
    objects_end();
}

struct lane *lane_for(struct queue *queue, const int64_t *waits, size_t count, int alone)
{
    if (!queue->lane_count) return lane_new(queue);
    if (queue->ordered) return &queue->lanes[0];
    for (size_t i = 0; !alone && i < queue->lane_count; i++)
        for (size_t k = 0; k < count; k++)
            if (queue->lanes[i].last == waits[k]) return &queue->lanes[i];
    for (size_t i = 0; i < queue->lane_count; i++)
        if (queue->lanes[i].free) return &queue->lanes[i];
    if (queue->lane_count < MOST_LANES) return lane_new(queue);
    static atomic_int told;
    if (!atomic_exchange(&told, 1)) {
        output_begin();
        output_fact("unseen the order of more than %d commands at once in an out-of-order queue: further ones stand in line", MOST_LANES);
        output_end();
    }
    static size_t turn;
    return &queue->lanes[turn++ % queue->lane_count];
}

/* The host waited for a command: what comes next in its stream finds it done. */
void lane_waited(struct queue *queue, int64_t number)
{
    for (size_t i = 0; i < queue->lane_count; i++)
        if (queue->lanes[i].last == number) queue->lanes[i].free = 1;
}

/* ---- events ---- */

static struct map events;

struct event *event_of(cl_event handle) { return map_get(&events, handle); }

static void event_free(struct event *event)
{
    if (event && event->copy) runtime.clReleaseEvent(event->copy);
    free(event);
}

void event_add(cl_event handle, const struct event *event)
{
    struct event *own = malloc(sizeof *own);
    if (!own) return;
    *own = *event;
    objects_begin();
    struct event *before = map_put(&events, handle, own);
    objects_end();
    event_free(before);
}

void event_retained(cl_event handle)
{
    objects_begin();
    struct event *event = event_of(handle);
    if (event) event->uses++;
    objects_end();
}

void event_released(cl_event handle)
{
    objects_begin();
    struct event *event = event_of(handle), *gone = NULL;
    if (event && --event->uses == 0) gone = map_take(&events, handle);
    objects_end();
    event_free(gone);
}

cl_event event_copy(cl_event handle)
{
    objects_begin();
    const struct event *event = event_of(handle);
    cl_event copy = event ? event->copy : NULL;
    objects_end();
    return copy;
}

/* ---- kernels ---- */

static struct map kernels;

void kernel_named(cl_kernel kernel)
{
    char text[LONGEST_TEXT];
    if (!kernel || runtime.clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof text, text, NULL) != CL_SUCCESS) return;
    text[sizeof text - 1] = 0;
    output_begin();
    int64_t name = output_name(text);
    output_end();
    objects_begin();
    map_put(&kernels, kernel, (void *)(intptr_t)(name + 1));
    objects_end();
}

int64_t kernel_name(cl_kernel kernel)
{
    for (int again = 0; again < 2; again++) {
        objects_begin();
        intptr_t name = (intptr_t)map_get(&kernels, kernel);
        objects_end();
        if (name) return (int64_t)name - 1;
        kernel_named(kernel);
    }
    return NONE;
}

/* ---- memory ---- */

static struct map memories;
static int64_t memory_last;

struct memory *memory_of(cl_mem handle) { return map_get(&memories, handle); }

int64_t memory_add(cl_mem handle, const struct memory *memory)
{
    struct memory *own = malloc(sizeof *own);
    objects_begin();
    int64_t number = ++memory_last;
    if (own) {
        *own = *memory;
        own->number = number, own->uses = 1;
        free(map_put(&memories, handle, own));
    }
    objects_end();
    return number;
}

void memory_retained(cl_mem handle)
{
    objects_begin();
    struct memory *memory = memory_of(handle);
    if (memory) memory->uses++;
    objects_end();
}

/* Whether the program just gave up its last hold; then what was known of it is in `gone`. */
int memory_released(cl_mem handle, struct memory *gone)
{
    objects_begin();
    struct memory *memory = memory_of(handle);
    int last = memory && --memory->uses == 0;
    if (last) {
        *gone = *memory;
        free(map_take(&memories, handle));
    }
    objects_end();
    return last;
}

/* ---- regions of host memory ---- */

static struct region *regions;
static size_t region_count, region_room;

void region_add(const struct region *region)
{
    objects_begin();
    if (region_count == region_room) {
        size_t room = region_room ? 2 * region_room : 16;
        struct region *more = realloc(regions, room * sizeof *more);
        if (more) regions = more, region_room = room;
    }
    if (region_count < region_room) {
        regions[region_count] = *region;
        if (region->number == NONE) regions[region_count].number = ++memory_last;
        region_count++;
    }
    objects_end();
}

/* Takes out the region that begins there, the one added last of several. */
int region_take(const void *from, cl_mem owner, struct region *found)
{
    objects_begin();
    size_t i = region_count;
    while (i > 0 && (regions[i - 1].from != from || regions[i - 1].owner != owner)) i--;
    if (i > 0) {
        *found = regions[i - 1];
        memmove(&regions[i - 1], &regions[i], (region_count - i) * sizeof *regions);
        region_count--;
    }
    objects_end();
    return i > 0;
}

/* The mappings of a memory object that is gone. */
void region_forget(cl_mem owner)
{
    objects_begin();
    size_t kept = 0;
    for (size_t i = 0; i < region_count; i++)
        if (regions[i].owner != owner) regions[kept++] = regions[i];
    region_count = kept;
    objects_end();
}

/* The region that holds an address. */
int region_at(const void *pointer, struct region *found)
{
    const char *at = pointer;
    objects_begin();
    size_t i = region_count;
    while (i > 0 && (at < regions[i - 1].from || at >= regions[i - 1].from + regions[i - 1].bytes)) i--;
    if (i > 0) *found = regions[i - 1];
    objects_end();
    return i > 0;
}
