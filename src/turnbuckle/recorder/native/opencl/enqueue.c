/* enqueue.c - the calls that put a command into a queue: what each moves or runs, and where. */
#define _GNU_SOURCE
#include "layer.h"

#include <stdlib.h>
#include <string.h>

/* Every one of them: begin a record, call the runtime with a place for the command's event, end the record. */
#define ENQUEUE(function, ...) command_end(command, runtime.function(__VA_ARGS__, command_slot(command, event)), event)

/* ---- sizes and places ---- */

static int64_t product(const size_t *numbers)
{
    return numbers ? (int64_t)((uint64_t)numbers[0] * numbers[1] * numbers[2]) : NONE;
}

static int64_t image_bytes(cl_mem image, const size_t *region)
{
    size_t element = 0;
    if (!region || runtime.clGetImageInfo(image, CL_IMAGE_ELEMENT_SIZE, sizeof element, &element, NULL) != CL_SUCCESS) return NONE;
    return (int64_t)((uint64_t)product(region) * element);
}

static int64_t memory_bytes(cl_mem memory)
{
    size_t bytes = 0;
    return runtime.clGetMemObjectInfo(memory, CL_MEM_SIZE, sizeof bytes, &bytes, NULL) == CL_SUCCESS ? (int64_t)bytes : 0;
}

/* A pointer of the program: the runtime's page-locked memory if it lies in a mapping of such, shared memory, else ordinary. */
enum memory_kind host_memory(const void *pointer)
{
    struct region region;
    return region_at(pointer, &region) ? region.kind : PAGEABLE;
}

static void moves(struct command *command, enum copy_kind kind, int64_t bytes, enum memory_kind source, enum memory_kind target, int flags)
{
    if (!command) return;
    command->what = kind, command->bytes = bytes, command->source = source, command->target = target, command->flags = flags;
}

static struct command *host_copy(const char *name, cl_command_queue queue, cl_bool blocking, cl_uint count, const cl_event *waits)
{
    struct command *command = command_begin(name, COPY, 'C', queue, count, waits);
    if (command) command->blocking = !!blocking;
    return command;
}

#define ASYNC(blocking) ((blocking) ? 0 : NOT_BLOCKING)

/* ---- buffers ---- */

static cl_int CL_API_CALL read_buffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size, void *host,
                                      cl_uint count, const cl_event *waits, cl_event *event)
{
    struct command *command = host_copy(NAMED("clEnqueueReadBuffer", blocking), queue, blocking, count, waits);
    if (command) moves(command, DEVICE_TO_HOST, (int64_t)size, DEVICE, host_memory(host), ASYNC(blocking));
    return ENQUEUE(clEnqueueReadBuffer, queue, buffer, blocking, offset, size, host, count, waits);
}

static cl_int CL_API_CALL write_buffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size, const void *host,
                                       cl_uint count, const cl_event *waits, cl_event *event)
{
    struct command *command = host_copy(NAMED("clEnqueueWriteBuffer", blocking), queue, blocking, count, waits);
    if (command) moves(command, HOST_TO_DEVICE, (int64_t)size, host_memory(host), DEVICE, ASYNC(blocking));
    return ENQUEUE(clEnqueueWriteBuffer, queue, buffer, blocking, offset, size, host, count, waits);
}

static cl_int CL_API_CALL read_rect(cl_command_queue queue, cl_mem buffer, cl_bool blocking, const size_t *at, const size_t *host_at,
                                    const size_t *region, size_t row, size_t slice, size_t host_row, size_t host_slice, void *host, cl_uint count,
                                    const cl_event *waits, cl_event *event)
{
    struct command *command = host_copy(NAMED("clEnqueueReadBufferRect", blocking), queue, blocking, count, waits);
    if (command) moves(command, DEVICE_TO_HOST, product(region), DEVICE, host_memory(host), ASYNC(blocking));
    return ENQUEUE(clEnqueueReadBufferRect, queue, buffer, blocking, at, host_at, region, row, slice, host_row, host_slice, host, count, waits);
}

static cl_int CL_API_CALL write_rect(cl_command_queue queue, cl_mem buffer, cl_bool blocking, const size_t *at, const size_t *host_at,
                                     const size_t *region, size_t row, size_t slice, size_t host_row, size_t host_slice, const void *host,
                                     cl_uint count, const cl_event *waits, cl_event *event)
{
    struct command *command = host_copy(NAMED("clEnqueueWriteBufferRect", blocking), queue, blocking, count, waits);
    if (command) moves(command, HOST_TO_DEVICE, product(region), host_memory(host), DEVICE, ASYNC(blocking));
    return ENQUEUE(clEnqueueWriteBufferRect, queue, buffer, blocking, at, host_at, region, row, slice, host_row, host_slice, host, count, waits);
}

static cl_int CL_API_CALL copy_buffer(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_at, size_t to_at, size_t size, cl_uint count,
                                      const cl_event *waits, cl_event *event)
{
    struct command *command = command_begin("clEnqueueCopyBuffer", COPY, 'C', queue, count, waits);
    moves(command, DEVICE_TO_DEVICE, (int64_t)size, DEVICE, DEVICE, NOT_BLOCKING);
    return ENQUEUE(clEnqueueCopyBuffer, queue, from, to, from_at, to_at, size, count, waits);
}

static cl_int CL_API_CALL copy_rect(cl_command_queue queue, cl_mem from, cl_mem to, const size_t *from_at, const size_t *to_at,
                                    const size_t *region, size_t from_row, size_t from_slice, size_t to_row, size_t to_slice, cl_uint count,
                                    const cl_event *waits, cl_event *event)
{
    struct command *command = command_begin("clEnqueueCopyBufferRect", COPY, 'C', queue, count, waits);
    moves(command, DEVICE_TO_DEVICE, product(region), DEVICE, DEVICE, NOT_BLOCKING);
    return ENQUEUE(clEnqueueCopyBufferRect, queue, from, to, from_at, to_at, region, from_row, from_slice, to_row, to_slice, count, waits);
}

static cl_int CL_API_CALL fill_buffer(cl_command_queue queue, cl_mem buffer, const void *pattern, size_t pattern_size, size_t offset, size_t size,
                                      cl_uint count, const cl_event *waits, cl_event *event)
{
    struct command *command = command_begin("clEnqueueFillBuffer", MEMSET, 'S', queue, count, waits);
    if (command) command->bytes = (int64_t)size, command->target = DEVICE;
    return ENQUEUE(clEnqueueFillBuffer, queue, buffer, pattern, pattern_size, offset, size, count, waits);
}

static cl_int CL_API_CALL migrate(cl_command_queue queue, cl_uint memories, const cl_mem *list, cl_mem_migration_flags flags, cl_uint count,
                                  const cl_event *waits, cl_event *event)
{
    int moved = !(flags & CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED), home = !!(flags & CL_MIGRATE_MEM_OBJECT_HOST);
    struct command *command = command_begin("clEnqueueMigrateMemObjects", COPY, moved ? 'C' : 'E', queue, count, waits);
    if (command) {
        int64_t bytes = 0;
        for (cl_uint i = 0; list && i < memories; i++) bytes += memory_bytes(list[i]);
        moves(command, home ? DEVICE_TO_HOST : HOST_TO_DEVICE, bytes, home ? DEVICE : MEMORY_UNKNOWN, home ? MEMORY_UNKNOWN : DEVICE,
              NOT_BLOCKING | MIGRATED);
    }
    return ENQUEUE(clEnqueueMigrateMemObjects, queue, memories, list, flags, count, waits);
}

/* ---- images ---- */

static cl_int CL_API_CALL read_image(cl_command_queue queue, cl_mem image, cl_bool blocking, const size_t *at, const size_t *region, size_t row,
                                     size_t slice, void *host, cl_uint count, const cl_event *waits, cl_event *event)
{
    struct command *command = host_copy(NAMED("clEnqueueReadImage", blocking), queue, blocking, count, waits);
    if (command) moves(command, ARRAY_TO_HOST, image_bytes(image, region), ARRAY, host_memory(host), ASYNC(blocking));
    return ENQUEUE(clEnqueueReadImage, queue, image, blocking, at, region, row, slice, host, count, waits);
}

static cl_int CL_API_CALL write_image(cl_command_queue queue, cl_mem image, cl_bool blocking, const size_t *at, const size_t *region, size_t row,
                                      size_t slice, const void *host, cl_uint count, const cl_event *waits, cl_event *event)
{
    struct command *command = host_copy(NAMED("clEnqueueWriteImage", blocking), queue, blocking, count, waits);
    if (command) moves(command, HOST_TO_ARRAY, image_bytes(image, region), host_memory(host), ARRAY, ASYNC(blocking));
    return ENQUEUE(clEnqueueWriteImage, queue, image, blocking, at, region, row, slice, host, count, waits);
}

static cl_int CL_API_CALL copy_image(cl_command_queue queue, cl_mem from, cl_mem to, const size_t *from_at, const size_t *to_at,
                                     const size_t *region, cl_uint count, const cl_event *waits, cl_event *event)
{
    struct command *command = command_begin("clEnqueueCopyImage", COPY, 'C', queue, count, waits);
    if (command) moves(command, ARRAY_TO_ARRAY, image_bytes(from, region), ARRAY, ARRAY, NOT_BLOCKING);
    return ENQUEUE(clEnqueueCopyImage, queue, from, to, from_at, to_at, region, count, waits);
}

static cl_int CL_API_CALL image_to_buffer(cl_command_queue queue, cl_mem from, cl_mem to, const size_t *from_at, const size_t *region,
                                          size_t to_at, cl_uint count, const cl_event *waits, cl_event *event)
{
    struct command *command = command_begin("clEnqueueCopyImageToBuffer", COPY, 'C', queue, count, waits);
    if (command) moves(command, ARRAY_TO_DEVICE, image_bytes(from, region), ARRAY, DEVICE, NOT_BLOCKING);
    return ENQUEUE(clEnqueueCopyImageToBuffer, queue, from, to, from_at, region, to_at, count, waits);
}

static cl_int CL_API_CALL buffer_to_image(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_at, const size_t *to_at,
                                          const size_t *region, cl_uint count, const cl_event *waits, cl_event *event)
{
    struct command *command = command_begin("clEnqueueCopyBufferToImage", COPY, 'C', queue, count, waits);
    if (command) moves(command, DEVICE_TO_ARRAY, image_bytes(to, region), DEVICE, ARRAY, NOT_BLOCKING);
    return ENQUEUE(clEnqueueCopyBufferToImage, queue, from, to, from_at, to_at, region, count, waits);
}

static cl_int CL_API_CALL fill_image(cl_command_queue queue, cl_mem image, const void *color, const size_t *at, const size_t *region,
                                     cl_uint count, const cl_event *waits, cl_event *event)
{
    struct command *command = command_begin("clEnqueueFillImage", MEMSET, 'S', queue, count, waits);
    if (command) command->bytes = image_bytes(image, region), command->target = ARRAY;
    return ENQUEUE(clEnqueueFillImage, queue, image, color, at, region, count, waits);
}

/* ---- mappings: what the program may then read comes to the host, what it wrote goes back ---- */

static struct command *map_begin(const char *name, cl_command_queue queue, cl_bool blocking, cl_ulong flags, cl_uint count,
                                 const cl_event *waits)
{
    struct command *command = command_begin(name, COPY, flags & (CL_MAP_READ | CL_MAP_WRITE) ? 'C' : 'E', queue, count, waits);
    if (command) command->blocking = !!blocking;
    return command;
}

static enum memory_kind mapped_memory(cl_mem handle)
{
    objects_begin();
    const struct memory *memory = memory_of(handle);
    cl_mem_flags flags = memory ? memory->flags : 0;
    objects_end();
    return flags & CL_MEM_USE_HOST_PTR ? PAGEABLE : flags & CL_MEM_ALLOC_HOST_PTR ? PINNED : MEMORY_UNKNOWN;
}

static void *map_end(struct command *command, cl_mem memory, cl_map_flags flags, int64_t bytes, void *mapped, cl_int result, cl_event *event,
                     cl_int *error)
{
    command_end(command, result, event);
    if (recording && mapped) region_add(&(struct region){ mapped, bytes > 0 ? (size_t)bytes : 0, memory, flags, mapped_memory(memory), 0 });
    if (error) *error = result;
    return mapped;
}

static void *CL_API_CALL map_buffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, cl_map_flags flags, size_t offset, size_t size,
                                    cl_uint count, const cl_event *waits, cl_event *event, cl_int *error)
{
    struct command *command = map_begin(NAMED("clEnqueueMapBuffer", blocking), queue, blocking, flags, count, waits);
    if (command) moves(command, DEVICE_TO_HOST, (int64_t)size, DEVICE, mapped_memory(buffer), ASYNC(blocking) | MAPPED);
    cl_int result = CL_SUCCESS;
    void *mapped = runtime.clEnqueueMapBuffer(queue, buffer, blocking, flags, offset, size, count, waits, command_slot(command, event), &result);
    return map_end(command, buffer, flags, (int64_t)size, mapped, result, event, error);
}

static void *CL_API_CALL map_image(cl_command_queue queue, cl_mem image, cl_bool blocking, cl_map_flags flags, const size_t *at,
                                   const size_t *region, size_t *row, size_t *slice, cl_uint count, const cl_event *waits, cl_event *event,
                                   cl_int *error)
{
    int64_t bytes = image_bytes(image, region);
    struct command *command = map_begin(NAMED("clEnqueueMapImage", blocking), queue, blocking, flags, count, waits);
    if (command) moves(command, ARRAY_TO_HOST, bytes, ARRAY, mapped_memory(image), ASYNC(blocking) | MAPPED);
    cl_int result = CL_SUCCESS;
    void *mapped = runtime.clEnqueueMapImage(queue, image, blocking, flags, at, region, row, slice, count, waits, command_slot(command, event),
                                             &result);
    return map_end(command, image, flags, bytes, mapped, result, event, error);
}

static cl_int CL_API_CALL unmap(cl_command_queue queue, cl_mem memory, void *mapped, cl_uint count, const cl_event *waits, cl_event *event)
{
    struct region region;
    int known = recording && region_take(mapped, memory, &region);
    int back = known && region.flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION);
    struct command *command = command_begin("clEnqueueUnmapMemObject", COPY, back ? 'C' : 'E', queue, count, waits);
    if (back) moves(command, HOST_TO_DEVICE, (int64_t)region.bytes, region.kind, DEVICE, NOT_BLOCKING | MAPPED);
    cl_int result = ENQUEUE(clEnqueueUnmapMemObject, queue, memory, mapped, count, waits);
    if (known && result != CL_SUCCESS) region_add(&region);
    return result;
}

/* ---- kernels ---- */

/* Where the program leaves the size of the groups to the runtime, that does not tell it. */
static void sizes(struct command *command, cl_kernel kernel, cl_uint dimensions, const size_t *global, const size_t *local)
{
    uint64_t items = 1, groups = 1, group = 1;
    command->name = kernel_name(kernel);
    if (!global || dimensions < 1 || dimensions > 3) return;
    for (cl_uint i = 0; i < dimensions; i++) {
        items *= global[i];
        if (!local || !local[i]) continue;
        groups *= global[i] / local[i] + (global[i] % local[i] != 0);
        group *= local[i];
    }
    command->what = (int64_t)items;
    if (local) command->blocks = (int64_t)groups, command->threads = (int64_t)group;
}

static cl_int CL_API_CALL launch(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *at, const size_t *global,
                                 const size_t *local, cl_uint count, const cl_event *waits, cl_event *event)
{
    struct command *command = command_begin("clEnqueueNDRangeKernel", LAUNCH, 'K', queue, count, waits);
    if (command && recording) sizes(command, kernel, dimensions, global, local);
    return ENQUEUE(clEnqueueNDRangeKernel, queue, kernel, dimensions, at, global, local, count, waits);
}

static cl_int CL_API_CALL launch_task(cl_command_queue queue, cl_kernel kernel, cl_uint count, const cl_event *waits, cl_event *event)
{
    struct command *command = command_begin("clEnqueueTask", LAUNCH, 'K', queue, count, waits);
    if (command) command->name = kernel_name(kernel), command->what = command->blocks = command->threads = 1;
    return ENQUEUE(clEnqueueTask, queue, kernel, count, waits);
}

static cl_int CL_API_CALL launch_native(cl_command_queue queue, void(CL_CALLBACK *function)(void *), void *arguments, size_t size, cl_uint memories,
                                        const cl_mem *list, const void **places, cl_uint count, const cl_event *waits, cl_event *event)
{
    struct command *command = command_begin("clEnqueueNativeKernel", LAUNCH, 'K', queue, count, waits);
    if (command && recording) {
        output_begin();
        command->name = output_name("native kernel");
        output_end();
        command->what = command->blocks = command->threads = 1;
    }
    return ENQUEUE(clEnqueueNativeKernel, queue, function, arguments, size, memories, list, places, count, waits);
}

/* ---- order ---- */

static struct command *order(const char *name, cl_command_queue queue, int barrier, cl_uint count, const cl_event *waits)
{
    struct command *command = command_begin(name, EVENT, 'E', queue, count, waits);
    if (command) command->alone = 1, command->barrier = barrier;
    return command;
}

static cl_int CL_API_CALL marker_with_list(cl_command_queue queue, cl_uint count, const cl_event *waits, cl_event *event)
{
    struct command *command = order("clEnqueueMarkerWithWaitList", queue, 0, count, waits);
    return ENQUEUE(clEnqueueMarkerWithWaitList, queue, count, waits);
}

static cl_int CL_API_CALL barrier_with_list(cl_command_queue queue, cl_uint count, const cl_event *waits, cl_event *event)
{
    struct command *command = order("clEnqueueBarrierWithWaitList", queue, 1, count, waits);
    return ENQUEUE(clEnqueueBarrierWithWaitList, queue, count, waits);
}

static cl_int CL_API_CALL marker(cl_command_queue queue, cl_event *event)
{
    struct command *command = order("clEnqueueMarker", queue, 0, 0, NULL);
    return ENQUEUE(clEnqueueMarker, queue);
}

static cl_int CL_API_CALL barrier(cl_command_queue queue)
{
    struct command *command = order("clEnqueueBarrier", queue, 1, 0, NULL);
    return command_end(command, runtime.clEnqueueBarrier(queue), NULL);
}

static cl_int CL_API_CALL queue_waits(cl_command_queue queue, cl_uint count, const cl_event *waits)
{
    struct command *command = order("clEnqueueWaitForEvents", queue, 1, count, waits);
    return command_end(command, runtime.clEnqueueWaitForEvents(queue, count, waits), NULL);
}

static cl_int CL_API_CALL acquire_gl(cl_command_queue queue, cl_uint memories, const cl_mem *list, cl_uint count, const cl_event *waits,
                                     cl_event *event)
{
    struct command *command = command_begin("clEnqueueAcquireGLObjects", EVENT, 'E', queue, count, waits);
    return ENQUEUE(clEnqueueAcquireGLObjects, queue, memories, list, count, waits);
}

static cl_int CL_API_CALL release_gl(cl_command_queue queue, cl_uint memories, const cl_mem *list, cl_uint count, const cl_event *waits,
                                     cl_event *event)
{
    struct command *command = command_begin("clEnqueueReleaseGLObjects", EVENT, 'E', queue, count, waits);
    return ENQUEUE(clEnqueueReleaseGLObjects, queue, memories, list, count, waits);
}

/* ---- shared virtual memory ---- */

/* The region of a mapping begins where shared memory does: another owner tells them apart. */
#define SVM_MAPPING ((cl_mem)&runtime)

static int on_device(enum memory_kind kind) { return kind == MANAGED || kind == DEVICE; }

struct command *pointer_copy(const char *name, cl_command_queue queue, cl_bool blocking, const void *to, const void *from, size_t size,
                             cl_uint count, const cl_event *waits)
{
    struct command *command = host_copy(name, queue, blocking, count, waits);
    if (!command) return NULL;
    enum memory_kind source = host_memory(from), target = host_memory(to);
    enum copy_kind kind = on_device(target) ? (on_device(source) ? DEVICE_TO_DEVICE : HOST_TO_DEVICE)
                                            : (on_device(source) ? DEVICE_TO_HOST : HOST_TO_HOST);
    moves(command, kind, (int64_t)size, source, target, ASYNC(blocking));
    return command;
}

static cl_int CL_API_CALL svm_copy(cl_command_queue queue, cl_bool blocking, void *to, const void *from, size_t size, cl_uint count,
                                   const cl_event *waits, cl_event *event)
{
    struct command *command = pointer_copy(NAMED("clEnqueueSVMMemcpy", blocking), queue, blocking, to, from, size, count, waits);
    return ENQUEUE(clEnqueueSVMMemcpy, queue, blocking, to, from, size, count, waits);
}

static cl_int CL_API_CALL svm_fill(cl_command_queue queue, void *memory, const void *pattern, size_t pattern_size, size_t size, cl_uint count,
                                   const cl_event *waits, cl_event *event)
{
    struct command *command = command_begin("clEnqueueSVMMemFill", MEMSET, 'S', queue, count, waits);
    if (command) command->bytes = (int64_t)size, command->target = MANAGED;
    return ENQUEUE(clEnqueueSVMMemFill, queue, memory, pattern, pattern_size, size, count, waits);
}

static cl_int CL_API_CALL svm_map(cl_command_queue queue, cl_bool blocking, cl_map_flags flags, void *memory, size_t size, cl_uint count,
                                  const cl_event *waits, cl_event *event)
{
    struct command *command = map_begin(NAMED("clEnqueueSVMMap", blocking), queue, blocking, flags, count, waits);
    if (command) moves(command, DEVICE_TO_HOST, (int64_t)size, MANAGED, MANAGED, ASYNC(blocking) | MAPPED);
    cl_int result = ENQUEUE(clEnqueueSVMMap, queue, blocking, flags, memory, size, count, waits);
    if (recording && result == CL_SUCCESS) region_add(&(struct region){ memory, size, SVM_MAPPING, flags, MANAGED, 0 });
    return result;
}

static cl_int CL_API_CALL svm_unmap(cl_command_queue queue, void *memory, cl_uint count, const cl_event *waits, cl_event *event)
{
    struct region region;
    int known = recording && region_take(memory, SVM_MAPPING, &region);
    int back = known && region.flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION);
    struct command *command = command_begin("clEnqueueSVMUnmap", COPY, back ? 'C' : 'E', queue, count, waits);
    if (back) moves(command, HOST_TO_DEVICE, (int64_t)region.bytes, MANAGED, MANAGED, NOT_BLOCKING | MAPPED);
    cl_int result = ENQUEUE(clEnqueueSVMUnmap, queue, memory, count, waits);
    if (known && result != CL_SUCCESS) region_add(&region);
    return result;
}

static cl_int CL_API_CALL svm_migrate(cl_command_queue queue, cl_uint pointers, const void **list, const size_t *sizes_given,
                                      cl_mem_migration_flags flags, cl_uint count, const cl_event *waits, cl_event *event)
{
    int moved = !(flags & CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED), home = !!(flags & CL_MIGRATE_MEM_OBJECT_HOST);
    struct command *command = command_begin("clEnqueueSVMMigrateMem", COPY, moved ? 'C' : 'E', queue, count, waits);
    if (command) {
        int64_t bytes = 0;
        struct region region;
        for (cl_uint i = 0; list && i < pointers; i++) {
            if (sizes_given && sizes_given[i]) bytes += (int64_t)sizes_given[i];
            else if (region_at(list[i], &region)) bytes += (int64_t)region.bytes;
        }
        moves(command, home ? DEVICE_TO_HOST : HOST_TO_DEVICE, bytes, MANAGED, MANAGED, NOT_BLOCKING | MIGRATED);
    }
    return ENQUEUE(clEnqueueSVMMigrateMem, queue, pointers, list, sizes_given, flags, count, waits);
}

static cl_int CL_API_CALL svm_free_later(cl_command_queue queue, cl_uint pointers, void **list,
                                         void(CL_CALLBACK *function)(cl_command_queue, cl_uint, void **, void *), void *data, cl_uint count,
                                         const cl_event *waits, cl_event *event)
{
    struct command *command = command_begin("clEnqueueSVMFree", ALLOC, 'E', queue, count, waits);
    struct region region;
    /* forgotten from now on; without its row: when the memory really goes is not told */
    for (cl_uint i = 0; recording && list && i < pointers; i++) region_take(list[i], NULL, &region);
    return ENQUEUE(clEnqueueSVMFree, queue, pointers, list, function, data, count, waits);
}

/* ---- the layer ---- */

void enqueue_take_over(struct _cl_icd_dispatch *layer)
{
#define TAKE(function, own) OWN(layer, function, own)
    TAKE(clEnqueueReadBuffer, read_buffer);
    TAKE(clEnqueueWriteBuffer, write_buffer);
    TAKE(clEnqueueReadBufferRect, read_rect);
    TAKE(clEnqueueWriteBufferRect, write_rect);
    TAKE(clEnqueueCopyBuffer, copy_buffer);
    TAKE(clEnqueueCopyBufferRect, copy_rect);
    TAKE(clEnqueueFillBuffer, fill_buffer);
    TAKE(clEnqueueMigrateMemObjects, migrate);
    TAKE(clEnqueueReadImage, read_image);
    TAKE(clEnqueueWriteImage, write_image);
    TAKE(clEnqueueCopyImage, copy_image);
    TAKE(clEnqueueCopyImageToBuffer, image_to_buffer);
    TAKE(clEnqueueCopyBufferToImage, buffer_to_image);
    TAKE(clEnqueueFillImage, fill_image);
    TAKE(clEnqueueMapBuffer, map_buffer);
    TAKE(clEnqueueMapImage, map_image);
    TAKE(clEnqueueUnmapMemObject, unmap);
    TAKE(clEnqueueNDRangeKernel, launch);
    TAKE(clEnqueueTask, launch_task);
    TAKE(clEnqueueNativeKernel, launch_native);
    TAKE(clEnqueueMarkerWithWaitList, marker_with_list);
    TAKE(clEnqueueBarrierWithWaitList, barrier_with_list);
    TAKE(clEnqueueMarker, marker);
    TAKE(clEnqueueBarrier, barrier);
    TAKE(clEnqueueWaitForEvents, queue_waits);
    TAKE(clEnqueueAcquireGLObjects, acquire_gl);
    TAKE(clEnqueueReleaseGLObjects, release_gl);
    TAKE(clEnqueueSVMMemcpy, svm_copy);
    TAKE(clEnqueueSVMMemFill, svm_fill);
    TAKE(clEnqueueSVMMap, svm_map);
    TAKE(clEnqueueSVMUnmap, svm_unmap);
    TAKE(clEnqueueSVMMigrateMem, svm_migrate);
    TAKE(clEnqueueSVMFree, svm_free_later);
#undef TAKE
}
