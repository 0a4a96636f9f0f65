/* The part of CUPTI that validation/slack/delay.c uses, written for the tests (standin.c).  Record names are those of CUDA 12.8;
 * fields have CUPTI's names, not its order. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define CUPTIAPI
#define CUPTI_API_VERSION 28

typedef void *CUcontext;
typedef enum { CUPTI_SUCCESS = 0, CUPTI_ERROR_MAX_LIMIT_REACHED = 12, CUPTI_ERROR_UNKNOWN = 999 } CUptiResult;
typedef enum { CUPTI_CB_DOMAIN_DRIVER_API = 1, CUPTI_CB_DOMAIN_RUNTIME_API = 2 } CUpti_CallbackDomain;
typedef enum { CUPTI_API_ENTER = 0, CUPTI_API_EXIT = 1 } CUpti_ApiCallbackSite;
typedef uint32_t CUpti_CallbackId;
typedef struct Subscriber *CUpti_SubscriberHandle;
typedef struct {
    CUpti_ApiCallbackSite callbackSite;
    const char *functionName;
    uint32_t correlationId;
} CUpti_CallbackData;
typedef void (*CUpti_CallbackFunc)(void *, CUpti_CallbackDomain, CUpti_CallbackId, const void *);
typedef void (*CUpti_BuffersCallbackRequestFunc)(uint8_t **, size_t *, size_t *);
typedef void (*CUpti_BuffersCallbackCompleteFunc)(CUcontext, uint32_t, uint8_t *, size_t, size_t);

typedef enum {
    CUPTI_ACTIVITY_KIND_MEMCPY = 1,
    CUPTI_ACTIVITY_KIND_MEMSET = 2,
    CUPTI_ACTIVITY_KIND_KERNEL = 3,
    CUPTI_ACTIVITY_KIND_DRIVER = 4,
    CUPTI_ACTIVITY_KIND_RUNTIME = 5,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10,
    CUPTI_ACTIVITY_KIND_CUDA_EVENT = 36,
    CUPTI_ACTIVITY_KIND_STREAM = 37,
    CUPTI_ACTIVITY_KIND_SYNCHRONIZATION = 38,
    STANDIN_KINDS = 64
} CUpti_ActivityKind;
enum { CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1 };

typedef struct { CUpti_ActivityKind kind; } CUpti_Activity;
typedef struct {
    CUpti_ActivityKind kind;
    CUpti_CallbackId cbid;
    uint64_t start, end;
    uint32_t correlationId, threadId, returnValue;
} CUpti_ActivityAPI;
typedef struct {
    CUpti_ActivityKind kind;
    uint64_t start, end;
    uint32_t correlationId, deviceId, contextId, streamId;
    int32_t gridX, gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory;
    uint16_t registersPerThread;
    const char *name;
} CUpti_ActivityKernel9;
typedef struct {
    CUpti_ActivityKind kind;
    uint64_t start, end, bytes;
    uint32_t correlationId, deviceId, contextId, streamId;
    uint8_t copyKind, srcKind, dstKind;
} CUpti_ActivityMemcpy6;
typedef struct {
    CUpti_ActivityKind kind;
    uint64_t start, end, bytes;
    uint32_t correlationId, deviceId, contextId, streamId, value;
    uint16_t memoryKind;
} CUpti_ActivityMemset4;
typedef struct {
    CUpti_ActivityKind kind;
    uint32_t type;
    uint64_t start, end, cudaEventSyncId;
    uint32_t correlationId, contextId, streamId, cudaEventId;
} CUpti_ActivitySynchronization2;
typedef struct {
    CUpti_ActivityKind kind;
    uint32_t correlationId, deviceId, contextId, streamId, eventId;
    uint64_t cudaEventSyncId;
} CUpti_ActivityCudaEvent2;
typedef struct {
    CUpti_ActivityKind kind;
    uint32_t contextId, streamId, flag;
} CUpti_ActivityStream;

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *);
CUptiResult cuptiEnableDomain(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain);
CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain, uint32_t, const char **);
CUptiResult cuptiGetResultString(CUptiResult, const char **);
CUptiResult cuptiGetTimestamp(uint64_t *);
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc, CUpti_BuffersCallbackCompleteFunc);
CUptiResult cuptiActivityEnable(CUpti_ActivityKind);
CUptiResult cuptiActivityFlushAll(uint32_t);
CUptiResult cuptiActivityGetNextRecord(uint8_t *, size_t, CUpti_Activity **);
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t *);
