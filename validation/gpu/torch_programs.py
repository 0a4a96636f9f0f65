#!/usr/bin/env python3
"""torch_programs.py - small PyTorch programs, timed unprofiled, then recorded with torch.profiler.

    torch_programs.py list
    torch_programs.py run NAME --out DIR [--iters N] [--repeats 5] [--slacks 0,1000,...] [--no-trace] [--small]
    torch_programs.py rates --out DIR          matrix-product rates (fp64, fp32, tf32, bf16, fp16)

NAME: transformer, transformer_graph, cnn, cnn_graph, infer_item, infer_item_graph, infer_batched.
`run` prints one JSON line per timed loop (as programs.cu does) and writes DIR/NAME.kineto.json.gz
(a few iterations). t0_ns and t1_ns are CLOCK_MONOTONIC. --slacks needs the recorder's library
(CUDA_INJECTION64_PATH, TB_SLACK_NS=0); no trace then.
Host name, user, paths and environment are taken out of the trace; call stacks are not recorded.
"""

import argparse
import ctypes
import gzip
import json
import os
import re
import sys
import time
from pathlib import Path

NAMES = [
    "transformer",
    "transformer_graph",
    "cnn",
    "cnn_graph",
    "infer_item",
    "infer_item_graph",
    "infer_batched",
]
TRACE_LIMIT = 3 << 20


# ---------------------------------------------------------------- the injector, when it is loaded
class Injector:
    def __init__(self):
        self.lib = None
        path = os.environ.get("CUDA_INJECTION64_PATH")
        if not path:
            return
        try:
            lib = ctypes.CDLL(path, mode=getattr(os, "RTLD_NOLOAD", 4) | os.RTLD_NOW)
        except OSError:
            return
        if lib.tb_status() == 0:
            self.lib = lib
            lib.tb_set_slack.argtypes = [ctypes.c_int64]

    def mark(self, label):
        if self.lib:
            self.lib.tb_mark(label.encode())

    def slack(self, ns):
        return bool(self.lib) and self.lib.tb_set_slack(int(ns)) == 1


def past_deadline():
    d = os.environ.get("TB_DEADLINE")
    return bool(d) and time.time() >= float(d)


# ---------------------------------------------------------------- the programs
def transformer_model(torch, small):
    d, layers, vocab, length, batch = (64, 2, 1000, 32, 2) if small else (512, 4, 8000, 128, 8)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(vocab, d)
            layer = torch.nn.TransformerEncoderLayer(
                d, 8, 4 * d, dropout=0.0, batch_first=True, norm_first=True
            )
            self.body = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            self.head = torch.nn.Linear(d, vocab)

        def forward(self, x):
            return self.head(self.body(self.embed(x)))

    return Model(), (batch, length), vocab


def cnn_model(torch, small):
    w = 8 if small else 64

    def block(a, b, stride):
        return torch.nn.Sequential(
            torch.nn.Conv2d(a, b, 3, stride, 1, bias=False),
            torch.nn.BatchNorm2d(b),
            torch.nn.ReLU(inplace=True),
        )

    m = torch.nn.Sequential(
        block(3, w, 1),
        block(w, w, 1),
        block(w, 2 * w, 2),
        block(2 * w, 2 * w, 1),
        block(2 * w, 4 * w, 2),
        block(4 * w, 4 * w, 1),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(4 * w, 10),
    )
    return m, (4 if small else 64, 3, 32, 32), 10


def build(torch, name, dev, small):
    """Returns (step, iters, describe). step() is one iteration and returns something whose float()
    is the check.
    """
    torch.manual_seed(1)
    graphed = name.endswith("_graph")
    base = name[:-6] if graphed else name
    cuda = dev == "cuda"
    if base in ("transformer", "cnn"):
        model, shape, classes = (transformer_model if base == "transformer" else cnn_model)(
            torch, small
        )
        model = model.to(dev).train()
        opt = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=graphed and cuda)
        loss_of = torch.nn.CrossEntropyLoss()
        pin = {"pin_memory": True} if cuda else {}
        if base == "transformer":
            hx = torch.empty(shape, dtype=torch.long, **pin).random_(classes)
            hy = torch.empty(shape, dtype=torch.long, **pin).random_(classes)
        else:
            hx = torch.empty(shape, **pin).normal_()
            hy = torch.empty(shape[0], dtype=torch.long, **pin).random_(classes)
        x, y = torch.empty_like(hx, device=dev), torch.empty_like(hy, device=dev)
        loss = torch.zeros((), device=dev)

        def train():
            opt.zero_grad(set_to_none=not graphed)
            out = model(x)
            now = loss_of(out.reshape(-1, classes), y.reshape(-1))
            now.backward()
            opt.step()
            loss.copy_(now.detach())

        def load():
            x.copy_(hx, non_blocking=True)
            y.copy_(hy, non_blocking=True)

        go = capture(torch, train, load) if graphed and cuda else train

        def step():
            load()
            go()
            return loss

        return step, (3 if small else 60), {"shape": list(shape)}

    # inference: a chain of small layers; infer_item looks at a result on the host every step,
    # infer_batched only at the end
    d, depth = (32, 4) if small else (1024, 12)
    model = (
        torch.nn.Sequential(
            *[
                m
                for _ in range(depth)
                for m in (torch.nn.Linear(d, d), torch.nn.LayerNorm(d), torch.nn.GELU())
            ]
        )
        .to(dev)
        .eval()
    )
    x = torch.randn(1, d, device=dev)
    y = torch.zeros((), device=dev)

    def fwd():
        with torch.no_grad():
            out = model(x)
            x.copy_(out / (out.norm() + 1e-6) * d**0.5)
            y.copy_(out.mean())

    go = capture(torch, fwd, lambda: None) if graphed and cuda else fwd
    if base == "infer_item":

        def step():
            go()
            return y.item()
    else:

        def step():
            go()
            return y

    return step, (3 if small else 300), {"width": d, "depth": depth}


def capture(torch, fn, load):
    """Warm up on a side stream, then capture fn into one CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            load()
            fn()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        fn()
    return g.replay


# ---------------------------------------------------------------- run one
def run(a):
    import torch

    torch.set_num_threads(4)
    dev = "cuda" if torch.cuda.is_available() else "cpu"
    if dev == "cpu" and not a.small:
        sys.exit("no usable GPU (use --small to try the paths on the CPU)")
    sync = torch.cuda.synchronize if dev == "cuda" else (lambda: None)
    if dev == "cuda":
        torch.backends.cudnn.benchmark = True
    step, iters, what = build(torch, a.name, dev, a.small)
    iters = a.iters or iters
    inj = Injector()
    slacks = [float(s) for s in a.slacks.split(",") if s] if a.slacks else []
    if slacks and not inj.slack(0):
        sys.exit("--slacks needs the injector with TB_SLACK_NS=0")
    machine = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "device": torch.cuda.get_device_name(0) if dev == "cuda" else "cpu",
    }
    print(json.dumps({"machine": machine}), flush=True)
    for _ in range(max(3, iters // 10)):
        step()
    sync()
    first = None
    for rep in range(a.repeats):
        for s in slacks or [-1.0]:
            if past_deadline():
                print(
                    json.dumps(
                        {
                            "program": "torch_" + a.name,
                            "skipped": "deadline",
                            "rep": rep,
                            "slack_ns": s,
                        }
                    ),
                    flush=True,
                )
                continue
            n = iters
            if first and s > 0:  # some 500 crossings an iteration is a guess on the safe side
                n = max(3, min(n, int(a.cap_s * 1e9 / (first + 500 * s))))
            if slacks:
                inj.slack(s)
            inj.mark("loop_begin")
            t0 = time.monotonic_ns()
            for _ in range(n):
                r = step()
            sync()
            t1 = time.monotonic_ns()
            inj.mark("loop_end")
            if slacks:
                inj.slack(0)
            first = first or (t1 - t0) / n
            print(
                json.dumps(
                    {
                        "program": "torch_" + a.name,
                        "args": what,
                        "rep": rep,
                        "slack_ns": s,
                        "injected": bool(inj.lib),
                        "iters": n,
                        "wall_ns": t1 - t0,
                        "per_iter_ns": (t1 - t0) / n,
                        "t0_ns": t0,
                        "t1_ns": t1,
                        "check": float(r),
                    }
                ),
                flush=True,
            )
    if a.no_trace or slacks or past_deadline():
        return
    record(torch, a, step, sync, dev)


def record(torch, a, step, sync, dev):
    """A few iterations under torch.profiler; fewer if the file gets too big."""
    from torch.profiler import ProfilerActivity, profile, record_function

    acts = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if dev == "cuda" else [])
    folder = Path(a.out)
    folder.mkdir(parents=True, exist_ok=True)
    raw, path = folder / f"{a.name}.kineto.tmp.json", folder / f"{a.name}.kineto.json.gz"
    for n in (a.trace_iters, max(2, a.trace_iters // 2), 2):
        with profile(
            activities=acts, record_shapes=False, with_stack=False, profile_memory=False
        ) as prof:
            step()  # the first iteration pays for the profiler's own start
            sync()
            t0 = time.monotonic_ns()
            for i in range(n):
                with record_function(f"iteration#{i}"):
                    step()
            sync()
            t1 = time.monotonic_ns()
        prof.export_chrome_trace(str(raw))
        size = scrub(raw, path)
        raw.unlink()
        print(
            json.dumps(
                {
                    "program": "torch_" + a.name,
                    "traced": path.name,
                    "iters": n,
                    "profiled_wall_ns": t1 - t0,
                    "per_iter_ns": (t1 - t0) / n,
                    "file_bytes": size,
                }
            ),
            flush=True,
        )
        if size <= TRACE_LIMIT or n <= 2:
            break


SECRET = re.compile(r"(?i)(token|secret|passw|credential|api_?key)")
PATH = re.compile(r"(?:/[\w.+-]+){2,}/?")


def scrub_value(v):
    if isinstance(v, str):
        return PATH.sub(lambda m: m.group(0).rstrip("/").rsplit("/", 1)[-1], v)
    if isinstance(v, list):
        return [scrub_value(x) for x in v]
    if isinstance(v, dict):
        return {k: scrub_value(x) for k, x in v.items() if not SECRET.search(k)}
    return v


def scrub(raw, path):
    """Chrome trace without host names, paths and environment; compact, gzip. Returns its size."""
    t = json.loads(raw.read_text())
    for k in (
        "traceName",
        "hostname",
        "host_name",
        "env",
        "environment",
        "username",
        "user",
        "PT_PROFILER_JOB_NAME",
        "PT_PROFILER_JOB_VERSION",
        "PT_PROFILER_JOB_ATTEMPT_INDEX",
    ):
        t.pop(k, None)
    for k in list(t):
        if SECRET.search(k):
            t.pop(k)
        elif k != "traceEvents":
            t[k] = scrub_value(t[k])
    for e in t.get("traceEvents", []):
        if e.get("ph") == "M" and "args" in e:  # process and thread names may carry a command line
            e["args"] = scrub_value(e["args"])
            if (
                isinstance(e["args"].get("name"), str)
                and e.get("name") == "process_name"
                and "python" in e["args"]["name"]
            ):
                e["args"]["name"] = "python"
        elif isinstance(e.get("args"), dict):
            for k in ("Python parent id", "Python module id", "Module Hierarchy", "Call stack"):
                e["args"].pop(k, None)
    with (
        path.open("wb") as f,
        gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=f, mtime=0) as z,
    ):
        z.write(json.dumps(t, separators=(",", ":")).encode())
    return path.stat().st_size


# ---------------------------------------------------------------- matrix rates
def rates(a):
    import torch

    if not torch.cuda.is_available():
        sys.exit("no usable GPU")
    rows = []
    for name, dtype, tf32, sizes in (
        ("fp64", torch.float64, False, (2048, 4096, 8192)),
        ("fp32", torch.float32, False, (2048, 4096, 8192)),
        ("tf32", torch.float32, True, (4096, 8192)),
        ("bf16", torch.bfloat16, False, (4096, 8192, 16384)),
        ("fp16", torch.float16, False, (4096, 8192)),
    ):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        for n in sizes:
            if past_deadline():
                rows.append({"skipped": "deadline"})
                continue
            x, y = (torch.randn(n, n, device="cuda").to(dtype) for _ in range(2))
            z = torch.empty(n, n, device="cuda", dtype=dtype)
            for _ in range(3):
                torch.mm(x, y, out=z)
            torch.cuda.synchronize()
            ts = []
            for _ in range(12):
                e0, e1 = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                e0.record()
                torch.mm(x, y, out=z)
                e1.record()
                e1.synchronize()
                ts.append(e0.elapsed_time(e1) * 1e6)
            ts.sort()
            rows.append(
                {
                    "case": "matmul",
                    "type": name,
                    "n": n,
                    "flop": 2.0 * n**3,
                    "event": {
                        "n": len(ts),
                        "min": ts[0],
                        "median": ts[len(ts) // 2],
                        "max": ts[-1],
                    },
                    "flop_per_s_median": 2.0 * n**3 / (ts[len(ts) // 2] * 1e-9),
                }
            )
            del x, y, z
    print(
        json.dumps(
            {
                "section": "torch_rates",
                "unit": "ns",
                "machine": {"device": torch.cuda.get_device_name(0), "torch": torch.__version__},
                "rows": rows,
            }
        )
    )


def main():
    p = argparse.ArgumentParser(description="small PyTorch programs")
    p.add_argument("what", choices=["list", "run", "rates"])
    p.add_argument("name", nargs="?", choices=NAMES)
    p.add_argument("--out", default=".")
    p.add_argument("--iters", type=int, default=0)
    p.add_argument("--repeats", type=int, default=5)
    p.add_argument("--slacks", default="")
    p.add_argument("--cap_s", type=float, default=6)
    p.add_argument("--trace_iters", type=int, default=6)
    p.add_argument("--no-trace", action="store_true")
    p.add_argument(
        "--small", action="store_true", help="tiny sizes, also on a CPU: to try the paths"
    )
    a = p.parse_args()
    if a.what == "list":
        print("\n".join(NAMES))
    elif a.what == "rates":
        rates(a)
    elif not a.name:
        p.error("run needs a NAME")
    else:
        run(a)


if __name__ == "__main__":
    main()
