"""OpenCL programs of known shape: prog.py KIND ITERATIONS"""

import sys
import time

import numpy as np
import pyopencl as cl

kind, n = sys.argv[1], int(sys.argv[2])
ctx = cl.Context([cl.get_platforms()[0].get_devices()[0]])
src = """
__kernel void spin(__global float* a, int it){ int i=get_global_id(0); float x=a[i]; for(int k=0;k<it;k++) x = x*0.999f + 0.5f; a[i]=x; }
"""
prg = cl.Program(ctx, src).build()
q = cl.CommandQueue(ctx)
N = 4096
host = np.ones(N, np.float32)
big = np.ones(1 << 18, np.float32)
a = cl.Buffer(ctx, cl.mem_flags.READ_WRITE, N * 4)
b = cl.Buffer(ctx, cl.mem_flags.READ_WRITE, big.nbytes)
b2 = cl.Buffer(ctx, cl.mem_flags.READ_WRITE, big.nbytes)
k = cl.Kernel(prg, "spin")
k.set_args(a, np.int32(20))
k2 = cl.Kernel(prg, "spin")
k2.set_args(b, np.int32(20))


def burn(us):
    t = time.perf_counter()
    while (time.perf_counter() - t) * 1e6 < us:
        pass


cl.enqueue_nd_range_kernel(q, k, (N,), (64,)).wait()
cl.enqueue_copy(q, b, big)
cl.enqueue_copy(q, b2, big)
q.finish()
t0 = time.perf_counter()
if kind == "sync":  # launch, wait
    for _ in range(n):
        cl.enqueue_nd_range_kernel(q, k, (N,), (64,))
        q.finish()
elif kind == "async":  # launches ahead, one wait every 50
    for i in range(n):
        cl.enqueue_nd_range_kernel(q, k, (N,), (64,))
        if i % 50 == 49:
            q.finish()
elif kind == "copy":  # blocking copy in, kernel, blocking copy out
    for _ in range(n):
        cl.enqueue_copy(q, a, host, is_blocking=True)
        cl.enqueue_nd_range_kernel(q, k, (N,), (64,))
        cl.enqueue_copy(q, host, a, is_blocking=True)
elif kind == "host":  # host works while the device does, then waits
    for _ in range(n):
        cl.enqueue_nd_range_kernel(q, k, (N,), (64,))
        q.flush()
        burn(150)
        q.finish()
elif kind == "reduce":  # a few launches then a small blocking read, as a solver's dot product
    for _turn in range(n):
        for _ in range(4):
            cl.enqueue_nd_range_kernel(q, k, (N,), (64,))
        cl.enqueue_copy(q, host[:1], a, is_blocking=True)
        burn(20)
q.finish()
print("loop_s", time.perf_counter() - t0)
