/* copies.c - see copies.h. */
#include "copies.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "clock.h"
#include "link.h"

enum { CALLS = 4096, GAP_OF_IDS = 64 };
enum { NO_COPY, ANY_COPY, RUNTIME_COPY, DRIVER_TO_DEVICE, DRIVER_TO_HOST };
enum { KIND_TO_DEVICE = 1, KIND_TO_HOST, KIND_WITHIN, KIND_BY_POINTERS }; /* cudaMemcpyKind; 0: within the host */

/* Arguments as CUPTI hands them on: generated_cuda_runtime_api_meta.h and generated_cuda_meta.h. */
struct runtime_copy { void *to; const void *from; size_t bytes; int kind; };
struct driver_copy { const void *to, *from; size_t bytes; };

static unsigned char known[2][CALLS], blocks[2][CALLS];
static __thread int depth;
static __thread int64_t began;

static int begins(const char *name, const char *with) { return strncmp(name, with, strlen(with)) == 0; }

/* What a call copies, as far as its arguments tell; copies within a device and between devices do not cross. */
static int copy_of(const char *name)
{
    if (!strstr(name, "Memcpy") || strstr(name, "Peer") || strstr(name, "DtoD") || strstr(name, "Graph") || strstr(name, "GetAttribute"))
        return NO_COPY;
    if (begins(name, "cudaMemcpy_v3020") || begins(name, "cudaMemcpy_ptds_v7000") || begins(name, "cudaMemcpyAsync_v3020")
        || begins(name, "cudaMemcpyAsync_ptsz_v7000"))
        return RUNTIME_COPY;
    if (begins(name, "cuMemcpyHtoD_v2") || begins(name, "cuMemcpyHtoDAsync_v2")) return DRIVER_TO_DEVICE;
    if (begins(name, "cuMemcpyDtoH_v2") || begins(name, "cuMemcpyDtoHAsync_v2")) return DRIVER_TO_HOST;
    return ANY_COPY;
}

/* Its bytes and direction; 0 where it does not cross, -1 where its arguments do not tell. */
static int crosses(int copy, const void *arguments, int64_t *bytes, enum link_direction *direction)
{
    if (copy == ANY_COPY || !arguments) return -1;
    if (copy == RUNTIME_COPY) {
        const struct runtime_copy *given = arguments;
        *bytes = (int64_t)given->bytes;
        *direction = given->kind == KIND_TO_DEVICE ? TO_DEVICE : TO_HOST;
        return given->kind == KIND_BY_POINTERS ? -1 : given->kind == KIND_TO_DEVICE || given->kind == KIND_TO_HOST;
    }
    *bytes = (int64_t)((const struct driver_copy *)arguments)->bytes;
    *direction = copy == DRIVER_TO_DEVICE ? TO_DEVICE : TO_HOST;
    return 1;
}

void copies_call(int driver, CUpti_CallbackId id, const CUpti_CallbackData *call)
{
    if (id >= CALLS || !known[driver][id]) return;
    if (call->callbackSite == CUPTI_API_ENTER) {
        if (!depth++) began = clock_now();
        return;
    }
    if (depth == 0 || --depth) return; /* of a runtime call and the driver's inside it, the outer one */
    int64_t ended = clock_now(), bytes = 0;
    enum link_direction direction = TO_DEVICE;
    int crossing = crosses(known[driver][id], call->functionParams, &bytes, &direction);
    if (crossing == 0) return;
    if (crossing < 0 || !blocks[driver][id]) {
        link_missed();
        return;
    }
    int64_t missing = link_missing(bytes, ended - began), now = missing ? clock_spin(ended, missing) : ended;
    link_count(direction, bytes, missing, now - ended);
}

CUptiResult copies_start(CUpti_SubscriberHandle subscriber)
{
    static const CUpti_CallbackDomain domains[2] = { CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_CB_DOMAIN_DRIVER_API };
    int watched = 0;
    for (int driver = 0; driver < 2; driver++) {
        int missing = 0;
        for (CUpti_CallbackId id = 1; id < CALLS && missing < GAP_OF_IDS; id++) {
            const char *name = NULL;
            if (cuptiGetCallbackName(domains[driver], id, &name) != CUPTI_SUCCESS || !name) {
                missing++;
                continue;
            }
            missing = 0;
            int copy = copy_of(name);
            if (copy == NO_COPY || cuptiEnableCallback(1, subscriber, domains[driver], id) != CUPTI_SUCCESS) continue;
            known[driver][id] = (unsigned char)copy, blocks[driver][id] = !strstr(name, "Async");
            watched++;
        }
    }
    return watched ? CUPTI_SUCCESS : CUPTI_ERROR_NOT_SUPPORTED;
}
