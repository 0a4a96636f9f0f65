"""What a host call is for, by its name."""

from __future__ import annotations

import polars as pl
import pytest

from turnbuckle.foundation.schema import words
from turnbuckle.profile.classify import (
    BOUNDARY_CLASSES,
    CALL_CLASSES,
    CATEGORIES,
    KIND_OF_CLASS,
    KINDS,
    call_class,
    call_classes,
)
from turnbuckle.profile.profile import KIND_OF_DIRECTION

OF = {
    "launch": [
        "cudaLaunchKernel",
        "cudaLaunchKernel_v7000",
        "cudaLaunchKernelExC",
        "cudaLaunchKernelExC_v11060",
        "cuLaunchKernel",
        "cuLaunchKernelEx",
        "cudaGraphLaunch",
        "cuGraphLaunch",
        "cudaLaunchCooperativeKernel",
        "cudaLaunchCooperativeKernelMultiDevice",
        "cudaLaunchDevice",
        "hipLaunchKernel",
        "hipModuleLaunchKernel",
        "hipExtModuleLaunchKernel",
        "hipGraphLaunch",
    ],
    "copy": [
        "cudaMemcpy",
        "cudaMemcpyAsync",
        "cudaMemcpy2DAsync",
        "cudaMemcpyPeerAsync",
        "cudaMemcpyFromSymbol",
        "cudaMemcpyToSymbolAsync",
        "cuMemcpyHtoDAsync_v2",
        "cuMemcpyDtoH_v2",
        "cudaMemPrefetchAsync",
        "hipMemcpy",
        "hipMemcpyWithStream",
    ],
    "memset": [
        "cudaMemset",
        "cudaMemsetAsync",
        "cudaMemset2DAsync",
        "cuMemsetD8Async",
        "hipMemsetAsync",
    ],
    "sync": [
        "cudaStreamSynchronize",
        "cudaDeviceSynchronize",
        "cudaEventSynchronize",
        "cudaThreadSynchronize",
        "cuCtxSynchronize",
        "cuStreamSynchronize",
        "cudaStreamSynchronize_ptsz",
        "hipDeviceSynchronize",
    ],
    "alloc": [
        "cudaMalloc",
        "cudaMallocHost",
        "cudaMallocAsync",
        "cudaMallocManaged",
        "cudaMallocPitch",
        "cudaFree",
        "cudaFreeHost",
        "cudaFreeAsync",
        "cudaHostAlloc",
        "cudaHostRegister",
        "cudaHostUnregister",
        "cuMemHostAlloc",
        "cuMemHostRegister_v2",
        "cuMemAlloc_v2",
        "cuMemFree_v2",
        "cuMemCreate",
        "cuMemMap",
        "cudaMemAdvise",
        "hipMalloc",
        "hipHostMalloc",
        "hipHostFree",
    ],
    "event": [
        "cudaEventRecord",
        "cudaEventRecordWithFlags",
        "cudaEventCreate",
        "cudaEventCreateWithFlags",
        "cudaEventDestroy",
        "cudaStreamWaitEvent",
        "cudaEventElapsedTime",
        "cuEventRecord",
        "hipEventRecord",
    ],
    "query": [
        "cudaEventQuery",
        "cudaStreamQuery",
        "cudaGetLastError",
        "cudaPeekAtLastError",
        "cudaStreamIsCapturing",
        "cudaStreamGetCaptureInfo_v2",
        "cudaFuncGetAttributes",
        "cudaDeviceGetAttribute",
        "cudaGetDeviceProperties",
        "cudaGetDeviceProperties_v2",
        "cudaGetDevice",
        "cudaGetDeviceCount",
        "cudaSetDevice",
        "cuKernelGetAttribute",
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
        "cudaPointerGetAttributes",
    ],
    "stream": [
        "cudaStreamCreate",
        "cudaStreamCreateWithFlags",
        "cudaStreamDestroy",
        "cudaStreamBeginCapture",
        "cudaStreamEndCapture",
        "cudaGraphInstantiate",
        "cudaGraphCreate",
        "cudaGraphDestroy",
        "cudaGraphExecDestroy",
        "cudaGraphAddKernelNode",
        "cudaThreadExchangeStreamCaptureMode",
    ],
    "module": [
        "cuModuleLoadData",
        "cuModuleLoadDataEx",
        "cuModuleUnload",
        "cuLibraryLoadData",
        "cuLibraryGetKernel",
        "cuModuleGetFunction",
    ],
    "other": [
        "cuInit",
        "cuGetProcAddress_v2",
        "cudaProfilerStart",
        "cudaLaunchHostFunc",
        "cudaGetDriverEntryPoint",
        "cudaGetFuncBySymbol",
        "",
        "operator new",
    ],
}


@pytest.mark.parametrize(
    ("name", "wanted"), [(name, word) for word, names in OF.items() for name in names]
)
def test_real_names(name: str, wanted: str) -> None:
    assert call_class(name) == wanted


def test_every_class_is_covered_here() -> None:
    assert set(OF) == set(CALL_CLASSES)


def test_codes_of_a_column() -> None:
    names = pl.Series("name", ["cudaLaunchKernel", None, "cudaFree", "never called"])
    column = pl.Series("name", [2, 0, None, 1, 0], dtype=pl.Int32)
    assert [CALL_CLASSES[c] for c in call_classes(column, names)] == [
        "alloc",
        "launch",
        "other",
        "other",
        "launch",
    ]
    assert call_classes(pl.Series("name", [], dtype=pl.Int32), names).shape == (0,)
    nothing = pl.Series("name", [], dtype=pl.String)
    assert [
        CALL_CLASSES[c] for c in call_classes(pl.Series("name", [None], dtype=pl.Int32), nothing)
    ] == ["other"]


def test_vocabulary_hangs_together() -> None:
    assert (
        set(BOUNDARY_CLASSES) <= set(CALL_CLASSES)
        and "query" not in BOUNDARY_CLASSES
        and "stream" not in BOUNDARY_CLASSES
    )
    assert set(KIND_OF_CLASS) <= set(CALL_CLASSES) and set(KIND_OF_CLASS.values()) <= set(KINDS)
    assert list(CATEGORIES) == ["kernel", "copy", "mpi", "api", "cpu"], (
        "the order is the priority of the time line (D1)"
    )
    assert set(KIND_OF_DIRECTION) == set(words("directions")) and set(
        KIND_OF_DIRECTION.values()
    ) <= set(KINDS)
    for direction, kind in KIND_OF_DIRECTION.items():
        plain = "copy_h2h" if direction == "unknown" else f"copy_{direction}"
        assert kind == ("migration" if direction.startswith("migration") else plain)
