"""Logs of torchtitan, whose lines of progress have colours and no time, but tokens per second and device::

    [rank0]:[titan] 2025-12-14 05:43:30,311 - root - INFO - step: 10  loss: 10.0371  grad_norm:  6.2420
      memory: 116.48GiB(83.37%)  tps: 6,512  tflops: 244.72  mfu: 24.74%

The configuration is in sentences of the log, and as a dictionary or JSON where the job prints its arguments.
[torchtitan, torchtitan/components/metrics.py at 00fbaaf, torchtitan/train.py at 000204a, torchtitan/distributed/
parallel_dims.py, and train.py of February 2025 and earlier, where the rate was called ``wps``]
"""

import re
from collections.abc import Iterator

from evenflow.profiles.measured.logs.degrees import shared_width
from evenflow.profiles.measured.logs.device_names import accelerator_of
from evenflow.profiles.measured.logs.log_format import (
    NUMBER,
    LogFormat,
    LoggedPeak,
    LoggedStep,
    PeakOf,
    number_in,
)
from evenflow.profiles.measured.logs.stated import Stated

_STEP = re.compile(r"(?<!validate )step: *([0-9]{1,12}) ")
_RATE = re.compile(r"(?:tps|wps): *([0-9][0-9,]{0,20})")
_TIME = re.compile(rf"elapsed_time_per_step: *{NUMBER}s")
_TFLOPS = re.compile(r"tflops: *([0-9][0-9,]{0,20}(?:\.[0-9]{1,10})?)")
_MEMORY = re.compile(r"memory: *([0-9]{1,6}\.[0-9]{1,6})GiB\(")
_RANK = re.compile(r"\[rank([0-9]{1,6})\]:")
"""What torchrun puts before a line: the rank in its node, which is that in the job where there is one node."""
_CAPACITY = re.compile(r"capacity: (.{1,80}?) with ([0-9]{1,6}\.[0-9]{1,6})GiB memory")
_MESH = re.compile(r"device mesh with parallelism: ([a-z_=0-9, ]{1,200})")
_OLD_MESH = re.compile(r"device mesh with \[([^\]]{0,200})\], \[([0-9, ]{0,100})\]")
_BUILDING = re.compile(r"Building ([\w.-]{1,60}) ([\w.-]{1,60}) with (\w{1,60}\(.*)")
_TOP_LEVEL = re.compile(r'(?:\[\w{1,40}\]:)?  "(dim|n_layers|vocab_size|enable_weight_tying)": (\w{1,40}),?\s*')
"""A field of a model that is printed as JSON over several lines, as in 2026, not one of its parts."""
_SIZE = re.compile(r"Model ([\w.-]{1,60}) ([\w.-]{1,60}) size: [0-9,]{1,30} total")
_ARGUMENT = re.compile(r"(\w{1,60})=([\w.+-]{1,60})")
_BATCHES = re.compile(
    r"local batch size ([0-9]{1,12}), global batch size ([0-9]{1,12}),.{0,80}? sequence length ([0-9]{1,12})"
)
_RECOMPUTE = re.compile(r"Applied (\w{1,40}) activation checkpointing")
_EIGHT_BITS = re.compile(r"(MXFP8|MX|Float8) (?:(tensorwise) scaled )?training active(?: with recipe (\w{1,40}))?")
_SCHEDULE = re.compile(r"Using pipeline schedule (\w{1,60}) with ([0-9]{1,9}) microbatches and ([0-9]{1,9}) stages")
_AXES = ("pp", "dp_replicate", "dp_shard", "cp", "tp", "ep")
_INSIDE_SHARDS = ("dp_shard_mod_ep", "dp_shard_in_ep", "dp", "dp_shard")
_GATED_FAMILIES = ("llama", "qwen", "deepseek")
_SCHEDULES = {"1f1b": "1f1b", "gpipe": "f-then-b", "interleaved1f1b": "interleaved"}
"""Names of orders of work: theirs in small letters, and ours."""


def _step(line: str) -> LoggedStep | None:
    if "step:" not in line or ("tps:" not in line and "wps:" not in line):
        return None
    number, rate = _STEP.search(line), number_in(_RATE, line)
    if number is None or rate is None or "validate step:" in line:
        return None
    return LoggedStep(
        number=int(number[1]), time_s=number_in(_TIME, line), tokens_s=rate, tflops=number_in(_TFLOPS, line)
    )


def _peaks(line: str, place: str) -> Iterator[LoggedPeak]:
    size = number_in(_MEMORY, line) if _step(line) is not None else None
    if size:
        rank = _RANK.match(line)
        whose = None if rank is None else int(rank[1])
        yield LoggedPeak(rank=whose, of=PeakOf.RESERVED, size_bytes=round(size * 2**30))


def _sentences(line: str) -> Iterator[tuple[str, str]]:
    if match := _CAPACITY.search(line):
        yield "device", accelerator_of(match[1], float(match[2])) or ""
    elif match := _MESH.search(line):
        yield from ((f"mesh {axis}", size) for axis, size in _ARGUMENT.findall(match[1]))
    elif match := _OLD_MESH.search(line):
        yield from _old_mesh(re.findall(r"\w+", match[1]), [int(size) for size in re.findall(r"[0-9]+", match[2])])
    elif match := _BUILDING.search(line):
        yield "model", f"{match[1]} {match[2]}"
        yield from ((f"model {name}", value) for name, value in _ARGUMENT.findall(match[3]))
    elif match := _SIZE.search(line):
        yield "model", f"{match[1]} {match[2]}"
    elif match := _TOP_LEVEL.fullmatch(line):
        yield f"model {match[1]}", match[2]
    elif match := _BATCHES.search(line):
        yield from zip(("local batch", "whole batch", "sequence"), match.groups(), strict=True)
    elif match := _RECOMPUTE.search(line):
        yield "recompute", match[1].lower().removesuffix("ac")
    elif match := _SCHEDULE.search(line):
        yield from zip(("schedule", "pipeline microbatches", "stages"), match.groups(), strict=True)
    elif "with torch.compile" in line:
        yield "compile", "True"
    elif match := _EIGHT_BITS.search(line):
        yield "float8", "True"
        yield "recipe", match[3] or match[2] or ("mxfp8" if match[1] == "MXFP8" else "")


def _old_mesh(names: list[str], sizes: list[int]) -> Iterator[tuple[str, str]]:
    """The degrees in a mesh that names only those above 1; shards beside and inside of experts are multiplied."""
    mesh = dict(zip(names, sizes, strict=False))
    shards = 1
    for name in _INSIDE_SHARDS:
        shards *= mesh.pop(name, 1)
    yield from ((f"mesh {axis}", str(mesh.get(axis, 1))) for axis in _AXES if axis not in ("dp_shard", "ep"))
    yield "mesh dp_shard", str(shards)


def _fields(stated: Stated) -> dict[str, object]:
    ranks = stated.whole("mesh pp", "pipeline_parallel_degree")
    tensor = stated.whole("mesh tp", "tensor_parallel_degree")
    shards, copies = stated.whole("mesh dp_shard"), stated.whole("mesh dp_replicate")
    local, split = stated.whole("local batch", "local_batch_size"), stated.whole("pipeline microbatches") or 1
    stages = stated.whole("stages")
    experts, expert_ffn = stated.whole("model num_experts", "num_experts"), stated.whole("model moe_inter_dim")
    name = stated.word("model") or ""
    is_known = name.startswith(_GATED_FAMILIES)
    hidden = stated.whole("model dim")
    heads = stated.whole("model n_heads", "n_heads")
    return {
        "hardware": stated.word("device"),
        "model": name or None,
        "hidden": hidden,
        "ffn": _ffn(stated, hidden),
        "layers": stated.whole("model n_layers"),
        "heads": heads,
        "kv_heads": stated.whole("model n_kv_heads", "n_kv_heads") or heads,
        "head_dim": stated.whole("model head_dim"),
        "vocab": stated.whole("model vocab_size"),
        "seq": stated.whole("sequence", "seq_len"),
        "experts": experts,
        "active_experts": stated.whole("model top_k", "top_k") if experts else None,
        "expert_ffn": expert_ffn if experts else None,
        "notes": shared_width(stated.whole("model num_shared_experts"), expert_ffn) if experts else None,
        "gated_mlp": True if is_known else None,
        "tied_embeddings": (stated.flag("model enable_weight_tying") or False) if is_known else None,
        "precision": _precision(stated),
        "tp": tensor,
        "cp": stated.whole("mesh cp", "context_parallel_degree"),
        "ep": stated.whole("mesh ep", "expert_parallel_degree"),
        "dp": (shards or 1) * (copies or 1) if shards or copies else None,
        "pp": ranks,
        "vpp": stages // ranks if stages and ranks and stages % ranks == 0 else 1 if ranks == 1 else None,
        "schedule": _SCHEDULES.get((stated.word("schedule") or "").lower()),
        "sequence_parallel": tensor > 1 if tensor else None,
        "zero": None if shards is None else "fsdp" if shards > 1 else "0",
        "mbs": local // split if local and local % split == 0 else None,
        "gbs": stated.whole("whole batch", "global_batch_size"),
        "recompute": _recompute(stated, is_whole=bool(name)),
        "overlap_flags": _software(stated),
    }


def _ffn(stated: Stated, hidden: int | None) -> int | None:
    """The width of the MLP: as stated, or two thirds of four times the hidden size, times a factor, rounded up."""
    width = stated.whole("model hidden_dim", "model inter_dim", "hidden_dim")
    step = stated.whole("model multiple_of")
    if width or not hidden or not step:
        return width
    try:
        factor = float(stated.word("model ffn_dim_multiplier") or 1)
    except ValueError:
        return None
    if not 0 < factor < 100:
        return None
    exact = int(factor * int(8 * hidden / 3))
    return step * -(-exact // step)


def _precision(stated: Stated) -> str | None:
    if stated.flag("float8"):
        return "fp8"
    kind = stated.word("mixed_precision_param")
    return {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}.get(kind or "")


def _software(stated: Stated) -> str | None:
    """What the software does, in words that `stated_software` reads."""
    return ", ".join(filter(None, ("torch.compile" if stated.flag("compile") else None, stated.word("recipe")))) or None


def _recompute(stated: Stated, *, is_whole: bool) -> str | None:
    """Recomputation; torchtitan says nothing of it where there is none, which a log without its beginning does too."""
    kind = stated.word("recompute")
    if kind is None:
        return "none" if is_whole else None
    return kind if kind in ("full", "selective", "none") else None


TORCHTITAN = LogFormat(
    name="torchtitan",
    step=_step,
    beginnings=("Starting job: ", "Running with args: ", "Running with configs: "),
    fields=_fields,
    names=frozenset(
        (
            "tensor_parallel_degree", "pipeline_parallel_degree", "context_parallel_degree", "expert_parallel_degree",
            "local_batch_size", "global_batch_size", "seq_len", "mixed_precision_param", "n_heads", "n_kv_heads",
            "num_experts", "top_k", "hidden_dim",
        )
    ),
    sentences=_sentences,
    peaks=_peaks,
)  # fmt: skip
