/* usm.c - Intel's unified shared memory (cl_intel_unified_shared_memory), which SYCL and OpenMP use on OpenCL.
 *
 * A program fetches these functions by name and calls them past the loader: it gets own ones in their place.  A runtime has its
 * own address for each; where a program fetches them from two runtimes, the second's are not seen, and that is said. */
#include "layer.h"

#include <string.h>

typedef void *(CL_API_CALL *host_alloc_function)(cl_context, const cl_bitfield *, size_t, cl_uint, cl_int *);
typedef void *(CL_API_CALL *device_alloc_function)(cl_context, cl_device_id, const cl_bitfield *, size_t, cl_uint, cl_int *);
typedef cl_int(CL_API_CALL *free_function)(cl_context, void *);
typedef cl_int(CL_API_CALL *copy_function)(cl_command_queue, cl_bool, void *, const void *, size_t, cl_uint, const cl_event *, cl_event *);
typedef cl_int(CL_API_CALL *fill_function)(cl_command_queue, void *, const void *, size_t, size_t, cl_uint, const cl_event *, cl_event *);
typedef cl_int(CL_API_CALL *set_function)(cl_command_queue, void *, cl_int, size_t, cl_uint, const cl_event *, cl_event *);
typedef cl_int(CL_API_CALL *migrate_function)(cl_command_queue, const void *, size_t, cl_mem_migration_flags, cl_uint, const cl_event *, cl_event *);

enum { HOST_ALLOC, DEVICE_ALLOC, SHARED_ALLOC, FREE, BLOCKING_FREE, COPY_USM, FILL_USM, SET_USM, MIGRATE_USM, FUNCTIONS };
static _Atomic(void *) theirs[FUNCTIONS];

static void *allocated(struct call *call, cl_context context, void *memory, size_t size, enum memory_kind kind, cl_int result, cl_int *error)
{
    call_done(call, result);
    if (error) *error = result;
    if (!recording || !memory) return memory;
    struct region region = { memory, size, NULL, 0, kind, NONE };
    region_add(&region);
    if (region_at(memory, &region)) memory_row(call, 1, context_number(context, 0), (int64_t)size, kind, region.number, 0);
    return memory;
}

static void *CL_API_CALL host_alloc(cl_context context, const cl_bitfield *properties, size_t size, cl_uint alignment, cl_int *error)
{
    cl_int result = CL_SUCCESS;
    struct call call = call_begin("clHostMemAllocINTEL", ALLOC);
    void *memory = ((host_alloc_function)theirs[HOST_ALLOC])(context, properties, size, alignment, &result);
    if (recording && memory) unseen("host memory within the device's reach: what it reads and writes there by itself");
    return allocated(&call, context, memory, size, PINNED, result, error);
}

static void *CL_API_CALL device_alloc(cl_context context, cl_device_id device, const cl_bitfield *properties, size_t size, cl_uint alignment,
                                      cl_int *error)
{
    cl_int result = CL_SUCCESS;
    struct call call = call_begin("clDeviceMemAllocINTEL", ALLOC);
    void *memory = ((device_alloc_function)theirs[DEVICE_ALLOC])(context, device, properties, size, alignment, &result);
    return allocated(&call, context, memory, size, DEVICE, result, error);
}

static void *CL_API_CALL shared_alloc(cl_context context, cl_device_id device, const cl_bitfield *properties, size_t size, cl_uint alignment,
                                      cl_int *error)
{
    cl_int result = CL_SUCCESS;
    struct call call = call_begin("clSharedMemAllocINTEL", ALLOC);
    void *memory = ((device_alloc_function)theirs[SHARED_ALLOC])(context, device, properties, size, alignment, &result);
    if (recording && memory) unseen("shared memory: what host and device read and write there by themselves");
    return allocated(&call, context, memory, size, MANAGED, result, error);
}

static cl_int release(const char *name, int which, cl_context context, void *memory)
{
    struct region region;
    struct call call = call_begin(name, ALLOC);
    int known = recording && memory && region_take(memory, NULL, &region);
    cl_int result = call_done(&call, ((free_function)theirs[which])(context, memory));
    if (known && result == CL_SUCCESS) memory_row(&call, 2, context_number(context, 0), (int64_t)region.bytes, region.kind, region.number, 0);
    return result;
}

static cl_int CL_API_CALL usm_free(cl_context context, void *memory) { return release("clMemFreeINTEL", FREE, context, memory); }

static cl_int CL_API_CALL usm_blocking_free(cl_context context, void *memory)
{
    return release("clMemBlockingFreeINTEL", BLOCKING_FREE, context, memory);
}

static cl_int CL_API_CALL usm_copy(cl_command_queue queue, cl_bool blocking, void *to, const void *from, size_t size, cl_uint count,
                                   const cl_event *waits, cl_event *event)
{
    struct command *command = pointer_copy(NAMED("clEnqueueMemcpyINTEL", blocking), queue, blocking, to, from, size, count, waits);
    return command_end(command,
                       ((copy_function)theirs[COPY_USM])(queue, blocking, to, from, size, count, waits, command_slot(command, event)), event);
}

static struct command *filled(const char *name, cl_command_queue queue, const void *to, size_t size, cl_uint count, const cl_event *waits)
{
    struct command *command = command_begin(name, MEMSET, 'S', queue, count, waits);
    if (command) command->bytes = (int64_t)size, command->target = host_memory(to);
    return command;
}

static cl_int CL_API_CALL usm_fill(cl_command_queue queue, void *to, const void *pattern, size_t pattern_size, size_t size, cl_uint count,
                                   const cl_event *waits, cl_event *event)
{
    struct command *command = filled("clEnqueueMemFillINTEL", queue, to, size, count, waits);
    return command_end(command,
                       ((fill_function)theirs[FILL_USM])(queue, to, pattern, pattern_size, size, count, waits, command_slot(command, event)), event);
}

static cl_int CL_API_CALL usm_set(cl_command_queue queue, void *to, cl_int value, size_t size, cl_uint count, const cl_event *waits,
                                  cl_event *event)
{
    struct command *command = filled("clEnqueueMemsetINTEL", queue, to, size, count, waits);
    return command_end(command, ((set_function)theirs[SET_USM])(queue, to, value, size, count, waits, command_slot(command, event)), event);
}

static cl_int CL_API_CALL usm_migrate(cl_command_queue queue, const void *memory, size_t size, cl_mem_migration_flags flags, cl_uint count,
                                      const cl_event *waits, cl_event *event)
{
    int moved = !(flags & CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED), home = !!(flags & CL_MIGRATE_MEM_OBJECT_HOST);
    struct command *command = command_begin("clEnqueueMigrateMemINTEL", COPY, moved ? 'C' : 'E', queue, count, waits);
    if (command) {
        command->what = home ? DEVICE_TO_HOST : HOST_TO_DEVICE, command->bytes = (int64_t)size;
        command->source = command->target = MANAGED, command->flags = NOT_BLOCKING | MIGRATED;
    }
    return command_end(command, ((migrate_function)theirs[MIGRATE_USM])(queue, memory, size, flags, count, waits, command_slot(command, event)),
                       event);
}

void *usm_function(const char *name, void *address)
{
    static const struct { const char *name; void *own; } functions[FUNCTIONS] = {
        { "clHostMemAllocINTEL", (void *)host_alloc },      { "clDeviceMemAllocINTEL", (void *)device_alloc },
        { "clSharedMemAllocINTEL", (void *)shared_alloc },  { "clMemFreeINTEL", (void *)usm_free },
        { "clMemBlockingFreeINTEL", (void *)usm_blocking_free }, { "clEnqueueMemcpyINTEL", (void *)usm_copy },
        { "clEnqueueMemFillINTEL", (void *)usm_fill },      { "clEnqueueMemsetINTEL", (void *)usm_set },
        { "clEnqueueMigrateMemINTEL", (void *)usm_migrate },
    };
    for (int i = 0; i < FUNCTIONS; i++) {
        if (strcmp(name, functions[i].name) != 0) continue;
        void *none = NULL;
        return atomic_compare_exchange_strong(&theirs[i], &none, address) || none == address ? functions[i].own : NULL;
    }
    return NULL;
}
