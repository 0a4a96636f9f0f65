/* standin_places.c - AMD's libraries as far as they tell where a pointer leads: for the tests of the MPI layer.
 *
 * Built as libamdhip64.so.6 (-DHIP=6), libamdhip64.so.5 (-DHIP=5) or libhsa-runtime64.so.1.  What was given last of each kind is known; of
 * ordinary memory HIP 5 refuses to tell, and keeps the refusal as its last error. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NOWHERE, PINNED, DEVICE, MANAGED, KINDS };
static char *from[KINDS];
static size_t bytes[KINDS];

static int give(int kind, void **memory, size_t size) { return *memory = from[kind] = malloc(size), bytes[kind] = size, 0; }
int cudaMalloc(void **memory, size_t size) { return give(DEVICE, memory, size); }
int cudaMallocHost(void **memory, size_t size) { return give(PINNED, memory, size); }
int cudaMallocManaged(void **memory, size_t size, unsigned flags) { return (void)flags, give(MANAGED, memory, size); }

static int kind_of(const void *pointer)
{
    for (int kind = 1; kind < KINDS; kind++)
        if (from[kind] && (const char *)pointer >= from[kind] && (const char *)pointer < from[kind] + bytes[kind]) return kind;
    return NOWHERE;
}

#ifdef HIP
static int last_error;
int hipPeekAtLastError(void) { return last_error; }
int hipGetLastError(void)
{
    int error = last_error;
    return last_error = 0, error;
}
struct attributes { int type, device; void *device_pointer, *host_pointer; int managed; unsigned flags; };
int hipPointerGetAttributes(struct attributes *told, const void *pointer)
{
    int kind = kind_of(pointer);
    if (HIP < 6 && kind == NOWHERE) return last_error = 1;
    if (last_error) abort(); /* the program would see an error that it did not make */
    told->type = HIP < 6 ? kind - 1 : kind, told->managed = kind == MANAGED;
    return 0;
}
#else
struct info { uint32_t size, type; void *agent_base, *host_base; size_t bytes; void *user_data; uint64_t owner; uint32_t flags; bool registered; };
int hsa_amd_pointer_info(const void *pointer, struct info *told, void *(*allocate)(size_t), uint32_t *count, uint64_t **agents)
{
    int kind = kind_of(pointer);
    (void)allocate, (void)count, (void)agents;
    if (told->size < sizeof *told) return 0x1001;
    told->type = kind != NOWHERE, told->owner = 70 + (uint64_t)kind;
    return 0;
}
int hsa_agent_get_info(uint64_t agent, int what, void *value)
{
    if (what != 17) return 0x1001;
    *(int *)value = agent == 70 + DEVICE;
    return 0;
}
#endif
