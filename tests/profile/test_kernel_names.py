"""What the names of kernels tell, and kinds of kernels: whatever is merged, their time is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from rows import on_device, trace_of

import turnbuckle as tb
from turnbuckle.profile.kernels import MOST_KINDS, between_gpus, kind_by_name, kinds_of
from turnbuckle.profile.pieces import grouped

SAMPLE = Path(tb.__file__).parent / "examples" / "milc-like-synthetic.sqlite"


@pytest.mark.parametrize(
    ("name", "word", "precision"),
    [
        ("volta_sgemm_64x64_nt", "matrix product", "fp32"),
        (
            "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_cublas",
            "matrix product",
            "bf16",
        ),
        (
            "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>(Params)",
            "matrix product",
            "tf32",
        ),
        ("Cijk_Ailk_Bljk_HHS_BH_MT128x128x16", "matrix product", "fp16"),
        ("Cijk_Ailk_Bjlk_DB_MT64x32x16", "matrix product", "fp64"),
        ("volta_dgemm_64x64_nn", "matrix product", "fp64"),
        ("void gemv2T_kernel_val<int, double, double>(int)", "matrix-vector", "fp64"),
        ("void fbgemm_gpu::_offsets_range_cuda_kernel<long>(long, long)", "other", ""),
        (
            "cudnn_volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1",
            "convolution",
            "fp32",
        ),
        (
            "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float)",
            "normalisation",
            "fp32",
        ),
        (
            (
                "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, "
                "cutlass::bfloat16_t>>(P)"
            ),
            "attention",
            "bf16",
        ),
        (
            (
                "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, "
                "float>(float*)"
            ),
            "normalisation",
            "bf16",
        ),
        (
            (
                "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
                "at::native::func_wrapper_t<float> > >(R)"
            ),
            "reduction",
            "fp32",
        ),
        (
            (
                "void at::native::vectorized_elementwise_kernel<4, "
                "at::native::AddFunctor<float>, Array<char*, 3> >(int)"
            ),
            "elementwise",
            "fp32",
        ),
        (
            "void cub::DeviceScanKernel<cub::DeviceScanPolicy<float>::Policy600, float *>(float *)",
            "sort and scan",
            "fp32",
        ),
        (
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "collective",
            "fp32",
        ),
        ("void laplacian_kernel<double>(double*, double const*, int)", "stencil", "fp64"),
        ("Fan2(float *, float *, float *, int, int, int)", "other", "fp32"),
        ("", "other", ""),
    ],
)
def test_names_tell_class_and_precision(name: str, word: str, precision: str) -> None:
    kind = kind_by_name(name)
    assert (kind.name, kind.precision) == (word, precision)


#: Kernels that move data between GPUs, by the libraries that name them.
BETWEEN_GPUS = [
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclSymkDevKernel_AllGather_STMC(ncclSymkDevWorkArgs4K)",
    "void mscclpp::allreduce6<__half>(float*)",
    "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(unsigned char*)",
    "void c10d::(anonymous namespace)::two_shot_all_reduce_kernel_inplace<float, 16, 8>(float**)",
    "void c10d::symmetric_memory::barrier_kernel(unsigned int**, int)",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 4>(vllm::RankData*, vllm::RankSignals)",
    "void quickreduce::allreduce_prototype_twoshot<quickreduce::CodecFP>(half const*)",
    "void tensorrt_llm::kernels::oneShotAllReduceKernel<half, 8, true>(AllReduceParams)",
    (
        "void "
        "flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(AllReduceFusionPattern)1>(P)"
    ),
    "void userbuffers_fp16_sum_inplace_gpu_rw<8>(int)",
    "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*)",
    "void deep_ep::internode_ll::combine<true, 7168, 9>(void*)",
    "void nvshmemi_barrier_on_stream_kernel<0>(int)",
    "rccl_all_to_all(void*)",
    "void aiter::reduce_scatter_cross_device_store<float, 8>(float*)",
    "moeA2ADispatchKernel(Params)",
]
#: Kernels of one GPU whose names hold such words.
OF_ONE_GPU = [
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >(R)",
    "void cub::DeviceReduceKernel<cub::DeviceReducePolicy<float>::Policy600>(float*)",
    "void at::native::_scatter_gather_elementwise_kernel<128, 8>(int)",
    "void scatter_reduce_kernel<float>(float*)",
    "void blockAllReduceSoftmax<float>(float*)",
    "void oneflow::cuda::softmax::WarpAllReduceImpl<float>(float*)",
    "triton_poi_fused_all_gather_into_tensor_cat_3",
    "triton_red_fused_add_all_reduce_mean_wait_tensor_0",
    "small_gather_kernel(float*)",
    "void deep_ep::layout::get_dispatch_layout<256, 32>(long const*)",
    "void reduce_all_columns(float*)",
    "void broadcast_add_kernel<float>(float*)",
    "wilson_dslash_b_t_send(void*, void*, int, void*)",
]


@pytest.mark.parametrize("name", BETWEEN_GPUS)
def test_kernels_between_gpus_are_told_whoever_wrote_them(name: str) -> None:
    assert between_gpus(name) and kind_by_name(name).bound == "none"


@pytest.mark.parametrize("name", OF_ONE_GPU)
def test_a_word_of_collectives_makes_no_kernel_one(name: str) -> None:
    assert not between_gpus(name)


def test_a_name_of_megabytes_is_cut() -> None:
    assert kind_by_name("x" * 50_000_000 + "gemm").name == "other"


def test_kinds_keep_every_kernel_and_all_time() -> None:
    run = tb.read(SAMPLE)
    pieces, of_activity = grouped(run.profile)
    rows = pieces.kind == "kernel"
    assert (
        pieces.count[rows].sum() == run.trace.kernels.height
        and len({*pieces.kernel[rows]}) == rows.sum() > 1
    )
    assert all(kind is None for kind in pieces.kernel[~rows])
    exact = run.profile.of("kernel")["seconds"].sum()
    assert (
        pieces.seconds[rows].sum() == pytest.approx(exact, rel=1e-12) and (of_activity >= 0).all()
    )


def test_many_launches_become_few_kinds() -> None:
    """The longest keep their own; the rest take the launch of the longest of their class."""
    many = 5000
    launch = {"threads": 128, "registers": 32, "shared_bytes": 0}
    rows = [
        on_device(k * 1000, k * 1000 + 10 + k % 500, **{"name": k % 2, "blocks": k + 1, **launch})
        for k in range(many)
    ]
    trace = replace(trace_of({"kernels": rows}), names=pl.Series(["dgemm", "axpy"]))
    kinds, of_row = kinds_of(trace)
    assert MOST_KINDS <= len(kinds) <= MOST_KINDS + 2 and len(of_row) == many
    for first, word in ((0, "matrix product"), (1, "elementwise")):
        assert {kinds[k].name for k in of_row[first::2].tolist()} == {word}


@pytest.mark.parametrize(
    ("file", "told_share"),
    [
        ("kineto/resnet50_v100_workers0/worker0.1623143089861.pt.trace.json.gz", 0.97),
        ("kineto/hta_v100_ns_resolution/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz", 0.97),
        ("kineto/tracelens_h100_models/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz", 0.97),
        ("rocprof/rocprofv3_json_mi350_train/908_results.json.gz", 0.95),
        ("nsys/cloverleaf_a100_perlmutter/perlmutter-cloverleaf-cuda.sqlite", 0.95),
    ],
)
def test_names_of_real_runs_tell_most_of_their_time(
    shared: Path, file: str, told_share: float
) -> None:
    pieces, _ = grouped(tb.read(shared / "traces" / file).profile)
    kernels = [
        (kind, s) for kind, s in zip(pieces.kernel, pieces.seconds, strict=True) if kind is not None
    ]
    assert sum(s for kind, s in kernels if kind.name != "other") >= told_share * sum(
        s for _, s in kernels
    )
