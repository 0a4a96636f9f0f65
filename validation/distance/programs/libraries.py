"""Programs over installed packages: libraries.py NAME [ITERATIONS].  The work is the library's;
only the call of it is here.

Every program does its work once before it is timed, so that nothing is compiled in the loop, and
ends with a line that says when its loop began and ended on the monotonic clock: `loop_ns BEGIN
END`.  `LOOP_FROM_NS`, a time on that clock, has it wait until then.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import numpy as np

Step = Callable[[], object]
#: Name of a program: what gives its step, and how often the step is done.
PROGRAMS: dict[str, tuple[Callable[[], Step], int]] = {}


def program(times: int) -> Callable[[Callable[[], Step]], Callable[[], Step]]:
    """Register what prepares a program; it returns the step of its loop."""

    def register(prepare: Callable[[], Step]) -> Callable[[], Step]:
        PROGRAMS[prepare.__name__] = (prepare, times)
        return prepare

    return register


def random(*shape: int) -> np.ndarray:
    """Numbers that are the same in every run."""
    return np.random.default_rng(1).random(shape, dtype=np.float32)


def queue():  # type: ignore[no-untyped-def]
    """A queue of the first device."""
    import pyopencl as cl

    return cl.CommandQueue(cl.Context([cl.get_platforms()[0].get_devices()[0]]))


@program(30)
def opencv_filters() -> Step:
    """Blur, edges and a threshold of an image on OpenCV's UMat."""
    os.environ.setdefault("OPENCV_OPENCL_DEVICE", ":CPU:")  # without it only GPUs are taken
    import cv2

    cv2.ocl.setUseOpenCL(True)
    image = (random(240, 320) * 255).astype(np.uint8)

    def step() -> object:
        on_device = cv2.UMat(image)
        smooth = cv2.GaussianBlur(on_device, (5, 5), 1.5)
        edges = cv2.Sobel(smooth, cv2.CV_16S, 1, 0)
        return cv2.threshold(cv2.convertScaleAbs(edges), 40, 255, cv2.THRESH_BINARY)[1].get()

    return step


@program(40)
def opencv_pyramid() -> Step:
    """A pyramid of an image, down and up, and what is lost by it."""
    os.environ.setdefault("OPENCV_OPENCL_DEVICE", ":CPU:")  # without it only GPUs are taken
    import cv2

    cv2.ocl.setUseOpenCL(True)
    image = (random(256, 256) * 255).astype(np.uint8)

    def step() -> object:
        first = cv2.UMat(image)
        small = cv2.pyrDown(cv2.pyrDown(first))
        return cv2.absdiff(first, cv2.pyrUp(cv2.pyrUp(small))).get()

    return step


@program(4)
def clesperanto_blobs() -> Step:
    """Blobs of an image, smoothed, thresholded, counted."""
    import pyclesperanto as cle

    image = random(128, 128)

    def step() -> object:
        smooth = cle.gaussian_blur(cle.push(image), sigma_x=3, sigma_y=3)
        return cle.pull(cle.connected_components_labeling(cle.threshold_otsu(smooth)))

    return step


@program(30)
def clesperanto_top_hat() -> Step:
    """Background taken off a volume."""
    import pyclesperanto as cle

    image = random(16, 64, 64)

    def step() -> object:
        return cle.pull(cle.top_hat_box(cle.push(image), radius_x=2, radius_y=2, radius_z=1))

    return step


@program(60)
def reikna_fft() -> Step:
    """A transform forth and back."""
    from reikna import cluda
    from reikna.fft import FFT

    api = cluda.ocl_api()
    thread = api.Thread(api.get_platforms()[0].get_devices()[0])
    signal = thread.to_device(random(64, 256).astype(np.complex64))
    transform = FFT(signal, axes=(1,)).compile(thread)

    def step() -> object:
        transform(signal, signal)
        transform(signal, signal, inverse=True)
        return thread.synchronize()

    return step


@program(40)
def reikna_matrix() -> Step:
    """A chain of matrix products and a norm that is read back."""
    from reikna import cluda
    from reikna.linalg import MatrixMul

    api = cluda.ocl_api()
    thread = api.Thread(api.get_platforms()[0].get_devices()[0])
    a = thread.to_device(random(96, 96) / 96)
    b = thread.to_device(random(96, 96) / 96)
    c = thread.array((96, 96), np.float32)
    product = MatrixMul(a, b, out_arr=c).compile(thread)

    def step() -> object:
        product(c, a, b)
        product(a, c, b)
        return c.get()

    return step


@program(30)
def conjugate_gradient() -> Step:
    """Turns of a conjugate gradient solver on PyOpenCL's arrays: elementwise kernels and dot
    products read back.
    """
    import pyopencl.array as cla

    where = queue()
    n = 1 << 14
    diagonal = cla.to_device(where, random(n) + 1)
    x, r = cla.zeros(where, n, np.float32), cla.to_device(where, random(n))
    p = r.copy()
    state = {"x": x, "r": r, "p": p, "rr": float(cla.dot(r, r).get())}

    def step() -> object:
        q = diagonal * state["p"]
        alpha = state["rr"] / float(cla.dot(state["p"], q).get())
        state["x"] = state["x"] + np.float32(alpha) * state["p"]
        state["r"] = state["r"] - np.float32(alpha) * q
        rr = float(cla.dot(state["r"], state["r"]).get()) + 1e-6
        state["p"] = state["r"] + np.float32(rr / state["rr"]) * state["p"]
        state["rr"] = rr
        return rr

    return step


@program(30)
def scan_and_sort() -> Step:
    """PyOpenCL's radix sort (scans of bits) of a small array."""
    import pyopencl.array as cla
    from pyopencl.algorithm import RadixSort

    where = queue()
    keys = cla.to_device(where, (random(4096) * 65535).astype(np.uint32))
    sort = RadixSort(
        where.context,
        "unsigned int *keys",
        key_expr="keys[i]",
        sort_arg_names=["keys"],
        key_dtype=np.uint32,
    )

    def step() -> object:
        (out,), _ = sort(keys, key_bits=8)
        return out.get()

    return step


@program(60)
def random_numbers() -> Step:
    """Normal random numbers (Philox) and their mean."""
    import pyopencl.array as cla
    from pyopencl.clrandom import PhiloxGenerator

    where = queue()
    generator = PhiloxGenerator(where.context)
    out = cla.zeros(where, 1 << 14, np.float32)

    def step() -> object:
        generator.fill_normal(out)
        return float(cla.sum(out).get())

    return step


@program(60)
def loopy_heat() -> Step:
    """Steps of the heat equation by a kernel that loopy wrote."""
    import loopy as lp
    import pyopencl.array as cla

    where = queue()
    kernel = lp.make_kernel(
        "{[i,j]: 1<=i<n-1 and 1<=j<n-1}",
        "v[i,j] = u[i,j] + 0.1*(u[i-1,j] + u[i+1,j] + u[i,j-1] + u[i,j+1] - 4*u[i,j])",
        [lp.GlobalArg("u,v", np.float32, shape=("n", "n")), lp.ValueArg("n", np.int32)],
    )
    kernel = lp.split_iname(kernel, "j", 32, outer_tag="g.0", inner_tag="l.0")
    kernel = lp.tag_inames(kernel, {"i": "g.1"})
    run = kernel.executor(where.context)
    u, v = cla.to_device(where, random(128, 128)), cla.zeros(where, (128, 128), np.float32)

    def step() -> object:
        for _ in range(5):
            run(where, u=u, v=v, n=np.int32(128))
            run(where, u=v, v=u, n=np.int32(128))
        return float(u[64, 64].get())

    return step


@program(20)
def tinygrad_network() -> Step:
    """Training steps of a small network."""
    os.environ["DEV"] = "CL"
    os.environ["CL"] = os.environ["GPU"] = "1"
    from tinygrad import Context, Tensor, TinyJit, nn

    Tensor.manual_seed(1)
    first, second = nn.Linear(64, 64), nn.Linear(64, 10)
    optimiser = nn.optim.SGD([first.weight, first.bias, second.weight, second.bias], lr=0.01)
    x, y = Tensor(random(32, 64)).realize(), Tensor(np.arange(32) % 10).realize()

    @TinyJit
    def train() -> Tensor:
        optimiser.zero_grad()
        loss = second(first(x).relu()).sparse_categorical_crossentropy(y)
        loss.backward()
        return loss.realize(*optimiser.schedule_step())

    def step() -> object:
        with Context(TRAINING=1):
            return train().item()

    step()
    return step


@program(20)
def molecular_dynamics() -> Step:
    """Steps of particles with Lennard-Jones forces by OpenMM."""
    import openmm
    from openmm import unit

    system, force = openmm.System(), openmm.NonbondedForce()
    side = 3.0
    force.setNonbondedMethod(openmm.NonbondedForce.CutoffPeriodic)
    force.setCutoffDistance(1.0)
    system.setDefaultPeriodicBoxVectors((side, 0, 0), (0, side, 0), (0, 0, side))
    grid = (np.arange(7) + 0.5) * side / 7
    places = np.array([(a, b, c) for a in grid for b in grid for c in grid])
    for _ in places:
        system.addParticle(39.95)
        force.addParticle(0.0, 0.34, 1.0)
    system.addForce(force)
    integrator = openmm.VerletIntegrator(0.001 * unit.picosecond)
    context = openmm.Context(
        system, integrator, openmm.Platform.getPlatformByName("OpenCL"), {"Precision": "single"}
    )
    context.setPositions(places)

    def step() -> object:
        integrator.step(5)
        return context.getState(getEnergy=True).getPotentialEnergy()

    return step


@program(60)
def scattering() -> Step:
    """Scattering of cylinders by sasmodels."""
    from sasmodels.core import load_model
    from sasmodels.data import empty_data1D
    from sasmodels.direct_model import DirectModel

    model = DirectModel(
        empty_data1D(np.logspace(-3, -1, 100)),
        load_model("cylinder", dtype="single", platform="ocl"),
    )

    def step() -> object:
        return model(radius=20.0, length=400.0)

    return step


@program(4)
def denoising() -> Step:
    """Non-local means and a blur of an image by gputools."""
    import gputools

    image = random(96, 96)

    def step() -> object:
        return gputools.gaussian_filter(
            gputools.convolve(image, np.ones((5, 5), np.float32) / 25), sigma=(2, 2)
        )

    return step


@program(20)
def median_filter() -> Step:
    """A median filter by silx."""
    from silx.opencl.medfilt import MedianFilter2D

    image = random(96, 96)
    filtered = MedianFilter2D(image.shape, (3, 3))
    return lambda: filtered.medfilt2d(image)


@program(4)
def key_points() -> Step:
    """Key points of an image (SIFT) by silx."""
    from silx.opencl.sift import SiftPlan

    image = (random(128, 128) * 255).astype(np.float32)
    plan = SiftPlan(template=image)
    return lambda: plan(image)


def main() -> None:
    """Prepare a program, do its step once, and time the rest."""
    prepare, times = PROGRAMS[sys.argv[1]]
    if len(sys.argv) > 2:
        times = int(sys.argv[2])
    step = prepare()
    step()
    step()
    time.sleep(
        max(
            0,
            int(os.environ.get("LOOP_FROM_NS", "0")) - time.clock_gettime_ns(time.CLOCK_MONOTONIC),
        )
        / 1e9
    )
    begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    for _ in range(times):
        step()
    print("loop_ns", begin, time.clock_gettime_ns(time.CLOCK_MONOTONIC))


if __name__ == "__main__":
    main()
