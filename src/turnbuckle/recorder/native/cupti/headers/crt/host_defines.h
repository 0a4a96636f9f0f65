/* Words that CUDA's headers put before their declarations, for a C compiler without nvcc.
 *
 * Searched last: where the package nvidia-cuda-crt or a toolkit has the real header, that one is used.  PyTorch's CUDA packages
 * come without it. */
#ifndef TURNBUCKLE_HOST_DEFINES_H
#define TURNBUCKLE_HOST_DEFINES_H

#define __no_return__ __attribute__((noreturn))
#define __noinline__ __attribute__((noinline))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define __maxnreg__(...)
#define __thread__ __thread
#define __import__
#define __export__
#define __cdecl
#define __annotate__(...)
#define __location__(...)
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __builtin_align__(n) __align__(n)
#define __cudart_builtin__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __nv_pure__

#endif
