/* memory.c - the calls that make and release memory: buffers, images, shared virtual memory. */
#include "layer.h"

void memory_row(const struct call *call, int what, int64_t context, int64_t bytes, enum memory_kind kind, int64_t number, int filled)
{
    struct row row;
    row_begin(&row, 'M');
    row.start = call->end, row.corr = call->number, row.tid = thread_number(), row.ctx = context;
    row.what = what, row.bytes = bytes, row.dst = kind, row.address = number;
    if (filled) row.src = PAGEABLE;
    output_begin();
    output_row(&row);
    output_end();
}

static cl_mem memory_made(struct call *call, cl_context context, cl_mem_flags flags, cl_mem handle, int image, cl_int result, cl_int *error)
{
    call_done(call, result);
    if (error) *error = result;
    if (!recording || !handle) return handle;
    size_t bytes = 0;
    runtime.clGetMemObjectInfo(handle, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    struct memory memory = { 0, (int64_t)bytes, flags, 1,
                             flags & CL_MEM_USE_HOST_PTR     ? PAGEABLE
                             : flags & CL_MEM_ALLOC_HOST_PTR ? PINNED
                             : image                         ? ARRAY
                                                             : DEVICE };
    int64_t number = memory_add(handle, &memory);
    memory_row(call, 1, context_number(context, 0), memory.bytes, memory.kind, number, !!(flags & CL_MEM_COPY_HOST_PTR));
    return handle;
}

#define MAKE_MEMORY(function, image, ...)                                                                                                       \
    struct call call = call_begin(#function, ALLOC);                                                                                            \
    cl_int result = CL_SUCCESS;                                                                                                                 \
    cl_mem handle = runtime.function(__VA_ARGS__, &result);                                                                                     \
    return memory_made(&call, context, flags, handle, image, result, error)

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *error)
{
    MAKE_MEMORY(clCreateBuffer, 0, context, flags, size, host);
}

static cl_mem CL_API_CALL create_buffer_with_properties(cl_context context, const cl_mem_properties *properties, cl_mem_flags flags, size_t size,
                                                        void *host, cl_int *error)
{
    MAKE_MEMORY(clCreateBufferWithProperties, 0, context, properties, flags, size, host);
}

static cl_mem CL_API_CALL create_image(cl_context context, cl_mem_flags flags, const cl_image_format *format, const cl_image_desc *shape,
                                       void *host, cl_int *error)
{
    MAKE_MEMORY(clCreateImage, 1, context, flags, format, shape, host);
}

static cl_mem CL_API_CALL create_image_with_properties(cl_context context, const cl_mem_properties *properties, cl_mem_flags flags,
                                                       const cl_image_format *format, const cl_image_desc *shape, void *host, cl_int *error)
{
    MAKE_MEMORY(clCreateImageWithProperties, 1, context, properties, flags, format, shape, host);
}

static cl_mem CL_API_CALL create_image_2d(cl_context context, cl_mem_flags flags, const cl_image_format *format, size_t width, size_t height,
                                          size_t pitch, void *host, cl_int *error)
{
    MAKE_MEMORY(clCreateImage2D, 1, context, flags, format, width, height, pitch, host);
}

static cl_mem CL_API_CALL create_image_3d(cl_context context, cl_mem_flags flags, const cl_image_format *format, size_t width, size_t height,
                                          size_t depth, size_t pitch, size_t slice, void *host, cl_int *error)
{
    MAKE_MEMORY(clCreateImage3D, 1, context, flags, format, width, height, depth, pitch, slice, host);
}

static cl_int CL_API_CALL retain_memory(cl_mem handle)
{
    cl_int result = runtime.clRetainMemObject(handle);
    if (recording && result == CL_SUCCESS) memory_retained(handle);
    return result;
}

static cl_int CL_API_CALL release_memory(cl_mem handle)
{
    struct memory gone;
    struct call call = call_begin("clReleaseMemObject", ALLOC);
    int last = recording && memory_released(handle, &gone);
    if (last) region_forget(handle);
    cl_int result = call_done(&call, runtime.clReleaseMemObject(handle));
    if (last && result == CL_SUCCESS) memory_row(&call, 2, NONE, gone.bytes, gone.kind, gone.number, 0);
    return result;
}

static void *CL_API_CALL svm_alloc(cl_context context, cl_svm_mem_flags flags, size_t size, cl_uint alignment)
{
    struct call call = call_begin("clSVMAlloc", ALLOC);
    char *memory = runtime.clSVMAlloc(context, flags, size, alignment);
    call_done(&call, memory ? CL_SUCCESS : CL_MEM_OBJECT_ALLOCATION_FAILURE);
    if (!recording || !memory) return memory;
    struct region region = { memory, size, NULL, flags, MANAGED, NONE };
    region_add(&region);
    region_at(memory, &region);
    memory_row(&call, 1, context_number(context, 0), (int64_t)size, MANAGED, region.number, 0);
    if (flags & CL_MEM_SVM_FINE_GRAIN_BUFFER) unseen("fine-grained shared memory: what the device reads and writes there by itself");
    return memory;
}

static void CL_API_CALL svm_free(cl_context context, void *memory)
{
    struct region region;
    struct call call = call_begin("clSVMFree", ALLOC);
    int known = recording && memory && region_take(memory, NULL, &region);
    runtime.clSVMFree(context, memory);
    call_done(&call, CL_SUCCESS);
    if (known) memory_row(&call, 2, context_number(context, 0), (int64_t)region.bytes, MANAGED, region.number, 0);
}

void memory_take_over(struct _cl_icd_dispatch *layer)
{
#define TAKE(function, own) OWN(layer, function, own)
    TAKE(clCreateBuffer, create_buffer);
    TAKE(clCreateBufferWithProperties, create_buffer_with_properties);
    TAKE(clCreateImage, create_image);
    TAKE(clCreateImageWithProperties, create_image_with_properties);
    TAKE(clCreateImage2D, create_image_2d);
    TAKE(clCreateImage3D, create_image_3d);
    TAKE(clRetainMemObject, retain_memory);
    TAKE(clReleaseMemObject, release_memory);
    TAKE(clSVMAlloc, svm_alloc);
    TAKE(clSVMFree, svm_free);
#undef TAKE
}
