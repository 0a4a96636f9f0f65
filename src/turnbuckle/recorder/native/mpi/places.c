/* places.c - where a buffer is: asked of the GPU libraries that the process has loaded, none of which is linked.
 *
 *   OpenCL       the OpenCL layer offers its table of shared virtual memory, unified shared memory and mapped regions
 *   libcuda      cuPointerGetAttributes; OpenMP and OpenACC on NVIDIA's devices use it below, too
 *   libamdhip64  hipPointerGetAttributes
 *   libhsa-...   hsa_amd_pointer_info, for programs on AMD's devices without HIP (OpenMP)
 *
 * What none of them knows is ordinary host memory, unless a library is loaded that has device memory and cannot be asked. */
#define _GNU_SOURCE
#include "layer.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* The kind of memory that a pointer leads to; -1: the library does not know the pointer, -2: it cannot say. */
typedef int (*place_function)(const void *pointer);
enum { NOT_MINE = -1, CANNOT_SAY = -2 };

/* ---- OpenCL ---- */

static _Atomic(place_function) offered;

/* The OpenCL layer calls this as it begins. */
EXPORT void tb_places_offer(place_function place);
void tb_places_offer(place_function place) { offered = place; }

/* ---- CUDA ---- */

enum { CU_MEMORY_TYPE = 2, CU_IS_MANAGED = 8, CU_NOT_INITIALIZED = 3 };
enum { CU_HOST = 1, CU_DEVICE, CU_ARRAY, CU_UNIFIED };
static int (*cuda_attributes)(unsigned count, int *attributes, void **data, uint64_t pointer);

static int by_cuda(const void *pointer)
{
    unsigned type = 0, managed = 0;
    int wanted[] = { CU_MEMORY_TYPE, CU_IS_MANAGED };
    void *into[] = { &type, &managed };
    int result = cuda_attributes(2, wanted, into, (uint64_t)(uintptr_t)pointer);
    if (result == CU_NOT_INITIALIZED) return NOT_MINE;
    if (result != 0) return CANNOT_SAY;
    if (managed) return MANAGED;
    switch (type) {
    case 0: return NOT_MINE;
    case CU_HOST: return PINNED;
    case CU_DEVICE: return DEVICE;
    case CU_ARRAY: return ARRAY;
    case CU_UNIFIED: return MANAGED;
    default: return CANNOT_SAY;
    }
}

/* ---- HIP ---- */

struct hip_attributes { int type, device; void *device_pointer, *host_pointer; int managed; unsigned flags; char more[64]; };
enum { HIP_INVALID_VALUE = 1, HIP_NOT_INITIALIZED = 3 };
static int (*hip_ask)(struct hip_attributes *, const void *), (*hip_peek_error)(void), (*hip_clear_error)(void);
static int hip_renumbered; /* ROCm 6 counts kinds of memory as CUDA does */

static int by_hip(const void *pointer)
{
    struct hip_attributes told;
    memset(&told, 0, sizeof told);
    int before = hip_peek_error ? hip_peek_error() : 0, result = hip_ask(&told, pointer);
    /* a refusal is kept as the thread's last error, which the program may read */
    if (result != 0 && before == 0 && hip_clear_error) hip_clear_error();
    if (result == HIP_INVALID_VALUE || result == HIP_NOT_INITIALIZED) return NOT_MINE;
    if (result != 0) return CANNOT_SAY;
    if (told.managed) return MANAGED;
    if (!hip_renumbered) {
        static const int of[] = { PINNED, DEVICE, ARRAY, MANAGED, MANAGED };
        return told.type >= 0 && told.type < (int)(sizeof of / sizeof *of) ? of[told.type] : CANNOT_SAY;
    }
    switch (told.type) {
    case 0: return NOT_MINE;
    case 1: return PINNED;
    case 2: return DEVICE;
    case 3: return MANAGED;
    case 10: return ARRAY;
    case 11: return MANAGED;
    default: return CANNOT_SAY;
    }
}

/* ---- HSA ---- */

struct hsa_pointer_info {
    uint32_t size, type;
    void *agent_base, *host_base;
    size_t bytes;
    void *user_data;
    uint64_t owner;
    uint32_t flags;
    bool registered;
};
enum { HSA_NOT_INITIALIZED = 0x100B, HSA_AGENT_DEVICE = 17, HSA_GPU = 1 };
enum { HSA_UNKNOWN, HSA_ALLOCATED, HSA_LOCKED, HSA_GRAPHICS, HSA_IPC };
static int (*hsa_info)(const void *, struct hsa_pointer_info *, void *(*)(size_t), uint32_t *, uint64_t **);
static int (*hsa_agent)(uint64_t agent, int what, void *value);

static int by_hsa(const void *pointer)
{
    struct hsa_pointer_info told;
    int kind = 0;
    memset(&told, 0, sizeof told);
    told.size = sizeof told; /* a newer library writes no more than this */
    int result = hsa_info(pointer, &told, NULL, NULL, NULL);
    if (result == HSA_NOT_INITIALIZED) return NOT_MINE;
    if (result != 0) return CANNOT_SAY;
    switch (told.type) {
    case HSA_UNKNOWN: return NOT_MINE;
    case HSA_LOCKED: return PINNED;
    case HSA_ALLOCATED:
    case HSA_IPC: return hsa_agent(told.owner, HSA_AGENT_DEVICE, &kind) != 0 ? CANNOT_SAY : kind == HSA_GPU ? DEVICE : PINNED;
    default: return CANNOT_SAY;
    }
}

/* ---- which of them are there ---- */

enum { BY_CUDA, BY_HIP, BY_HSA, TELLERS };
static const place_function tellers[TELLERS] = { by_cuda, by_hip, by_hsa };
static const char *const teller_names[TELLERS] = { "cuda", "hip", "hsa" };
static atomic_int there[TELLERS], silent; /* silent: a library has device memory and cannot be asked */
static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;

static void *loaded(const char *name) { return dlopen(name, RTLD_LAZY | RTLD_NOLOAD); }

static void look(void)
{
    static const char *const hips[] = { "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so.4" };
    void *library;
    if (!there[BY_CUDA] && (library = loaded("libcuda.so.1"))) {
        *(void **)&cuda_attributes = dlsym(library, "cuPointerGetAttributes");
        there[BY_CUDA] = !!cuda_attributes;
    }
    for (size_t i = 0; !there[BY_HIP] && i < sizeof hips / sizeof *hips; i++) {
        if (!(library = loaded(hips[i]))) continue;
        *(void **)&hip_ask = dlsym(library, "hipPointerGetAttributes");
        *(void **)&hip_peek_error = dlsym(library, "hipPeekAtLastError");
        *(void **)&hip_clear_error = dlsym(library, "hipGetLastError");
        hip_renumbered = i < 2;
        there[BY_HIP] = !!hip_ask;
    }
    if (!there[BY_HSA] && !there[BY_HIP] && (library = loaded("libhsa-runtime64.so.1"))) {
        *(void **)&hsa_info = dlsym(library, "hsa_amd_pointer_info");
        *(void **)&hsa_agent = dlsym(library, "hsa_agent_get_info");
        there[BY_HSA] = hsa_info && hsa_agent;
    }
    silent = !!loaded("libze_loader.so.1");
}

static int first_object(struct dl_phdr_info *object, size_t size, void *adds)
{
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs)) *(unsigned long long *)adds = object->dlpi_adds;
    return 1;
}

/* Looks again only where a library was loaded since. */
static void look_if_new(void)
{
    static atomic_ullong looked;
    unsigned long long adds = 0;
    dl_iterate_phdr(first_object, &adds);
    if (adds && adds == looked) return;
    pthread_mutex_lock(&looking);
    look();
    looked = adds;
    pthread_mutex_unlock(&looking);
}

enum memory_kind place_of(const void *pointer)
{
    place_function by_opencl = offered;
    int kind = by_opencl ? by_opencl(pointer) : NOT_MINE, mute = 0;
    if (kind >= 0) return (enum memory_kind)kind;
    look_if_new();
    for (int i = 0; i < TELLERS; i++) {
        if (!there[i]) continue;
        kind = tellers[i](pointer);
        if (kind >= 0) return (enum memory_kind)kind;
        mute |= kind == CANNOT_SAY;
    }
    return mute || silent ? MEMORY_UNKNOWN : PAGEABLE;
}

void places_tell(void)
{
    for (int i = 0; i < TELLERS; i++)
        if (there[i]) output_fact("places %s", teller_names[i]);
    if (offered) output_fact("places opencl");
    if (silent) output_fact("places level_zero cannot be asked");
}
