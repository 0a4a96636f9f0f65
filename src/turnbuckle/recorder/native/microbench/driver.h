/* driver.h - the part of the CUDA driver API that microbench.c calls, declared by ourselves: no toolkit is needed to build it.
 * Names and numbers are those of the driver's stable binary interface; functions are looked up in libcuda.so.1 when the program starts. */
#pragma once
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

enum { STREAM_NON_BLOCKING = 1, EVENT_DEFAULT = 0, EVENT_DISABLE_TIMING = 2, HOST_MAPPED = 2, MANAGED_GLOBAL = 1, CAPTURE_THREAD_LOCAL = 1 };
enum { ATTR_CLOCK_RATE = 13, ATTR_SM_COUNT = 16, ATTR_MEMORY_CLOCK = 36, ATTR_BUS_WIDTH = 37, ATTR_L2 = 38, ATTR_ASYNC_ENGINES = 40,
       ATTR_CC_MAJOR = 75, ATTR_CC_MINOR = 76, ATTR_MANAGED = 83 };

/* result, name here, name in the library, parameters; the ones behind OPTIONAL may be missing in an old driver */
#define REQUIRED(X) \
    X(init, "cuInit", (unsigned)) \
    X(driverVersion, "cuDriverGetVersion", (int *)) \
    X(deviceCount, "cuDeviceGetCount", (int *)) \
    X(deviceGet, "cuDeviceGet", (CUdevice *, int)) \
    X(deviceName, "cuDeviceGetName", (char *, int, CUdevice)) \
    X(deviceTotalMem, "cuDeviceTotalMem_v2", (size_t *, CUdevice)) \
    X(deviceAttribute, "cuDeviceGetAttribute", (int *, int, CUdevice)) \
    X(primaryRetain, "cuDevicePrimaryCtxRetain", (CUcontext *, CUdevice)) \
    X(ctxSetCurrent, "cuCtxSetCurrent", (CUcontext)) \
    X(ctxSynchronize, "cuCtxSynchronize", (void)) \
    X(moduleLoadData, "cuModuleLoadData", (CUmodule *, const void *)) \
    X(moduleGetFunction, "cuModuleGetFunction", (CUfunction *, CUmodule, const char *)) \
    X(memGetInfo, "cuMemGetInfo_v2", (size_t *, size_t *)) \
    X(memAlloc, "cuMemAlloc_v2", (CUdeviceptr *, size_t)) \
    X(memFree, "cuMemFree_v2", (CUdeviceptr)) \
    X(memHostAlloc, "cuMemHostAlloc", (void **, size_t, unsigned)) \
    X(memFreeHost, "cuMemFreeHost", (void *)) \
    X(memHostDevice, "cuMemHostGetDevicePointer_v2", (CUdeviceptr *, void *, unsigned)) \
    X(memHostRegister, "cuMemHostRegister_v2", (void *, size_t, unsigned)) \
    X(memHostUnregister, "cuMemHostUnregister", (void *)) \
    X(memsetD8, "cuMemsetD8_v2", (CUdeviceptr, unsigned char, size_t)) \
    X(memsetAsync, "cuMemsetD8Async", (CUdeviceptr, unsigned char, size_t, CUstream)) \
    X(copyHtoD, "cuMemcpyHtoD_v2", (CUdeviceptr, const void *, size_t)) \
    X(copyDtoH, "cuMemcpyDtoH_v2", (void *, CUdeviceptr, size_t)) \
    X(copyDtoD, "cuMemcpyDtoD_v2", (CUdeviceptr, CUdeviceptr, size_t)) \
    X(copyHtoDAsync, "cuMemcpyHtoDAsync_v2", (CUdeviceptr, const void *, size_t, CUstream)) \
    X(copyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *, CUdeviceptr, size_t, CUstream)) \
    X(copyDtoDAsync, "cuMemcpyDtoDAsync_v2", (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
    X(streamCreate, "cuStreamCreate", (CUstream *, unsigned)) \
    X(streamDestroy, "cuStreamDestroy_v2", (CUstream)) \
    X(streamSynchronize, "cuStreamSynchronize", (CUstream)) \
    X(streamQuery, "cuStreamQuery", (CUstream)) \
    X(streamWaitEvent, "cuStreamWaitEvent", (CUstream, CUevent, unsigned)) \
    X(eventCreate, "cuEventCreate", (CUevent *, unsigned)) \
    X(eventDestroy, "cuEventDestroy_v2", (CUevent)) \
    X(eventRecord, "cuEventRecord", (CUevent, CUstream)) \
    X(eventSynchronize, "cuEventSynchronize", (CUevent)) \
    X(eventQuery, "cuEventQuery", (CUevent)) \
    X(eventElapsed, "cuEventElapsedTime", (float *, CUevent, CUevent)) \
    X(launchKernel, "cuLaunchKernel", (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **))
#define OPTIONAL(X) \
    X(memAllocManaged, "cuMemAllocManaged", (CUdeviceptr *, size_t, unsigned)) \
    X(beginCapture, "cuStreamBeginCapture_v2", (CUstream, int)) \
    X(endCapture, "cuStreamEndCapture", (CUstream, CUgraph *)) \
    X(graphInstantiate, "cuGraphInstantiateWithFlags", (CUgraphExec *, CUgraph, unsigned long long)) \
    X(graphLaunch, "cuGraphLaunch", (CUgraphExec, CUstream)) \
    X(graphExecDestroy, "cuGraphExecDestroy", (CUgraphExec)) \
    X(graphDestroy, "cuGraphDestroy", (CUgraph)) \
    X(canAccessPeer, "cuDeviceCanAccessPeer", (int *, CUdevice, CUdevice)) \
    X(enablePeer, "cuCtxEnablePeerAccess", (CUcontext, unsigned)) \
    X(copyPeerAsync, "cuMemcpyPeerAsync", (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream)) \
    X(errorName, "cuGetErrorName", (CUresult, const char **))

#define DECLARE(name, symbol, parameters) CUresult(*name) parameters;
static struct {
    REQUIRED(DECLARE)
    OPTIONAL(DECLARE)
    void *library;
} cu;

enum { EXIT_USAGE = 1, EXIT_FAILED = 2, EXIT_NO_DRIVER = 5, EXIT_NO_DEVICE = 6, EXIT_OLD_DRIVER = 7 };

static void driver_open(void)
{
    cu.library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!cu.library) {
        fprintf(stderr, "no driver: %s\n", dlerror());
        exit(EXIT_NO_DRIVER);
    }
#define LOOK_UP(name, symbol, parameters) *(void **)&cu.name = dlsym(cu.library, symbol);
    REQUIRED(LOOK_UP)
    OPTIONAL(LOOK_UP)
#define MUST(name, symbol, parameters)                                   \
    if (!cu.name) {                                                      \
        fprintf(stderr, "the driver has no function %s\n", symbol);      \
        exit(EXIT_OLD_DRIVER);                                           \
    }
    REQUIRED(MUST)
}

static void driver_check(CUresult result, const char *call, int line)
{
    const char *name = NULL;
    if (result == 0) return;
    if (cu.errorName) cu.errorName(result, &name);
    fprintf(stderr, "line %d: %s: %s (%d)\n", line, call, name ? name : "error", result);
    exit(EXIT_FAILED);
}
#define CHECK(call) driver_check(cu.call, #call, __LINE__)
