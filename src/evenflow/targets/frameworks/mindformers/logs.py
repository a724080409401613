"""Logs of MindFormers, on a static graph and in PyNative mode::

    … - INFO - { Epoch:[  1/  2], step:[   20/  100], loss: 10.541, per_step_time: 5377ms, lr: 1e-06, …,
      train_throughput_per_npu: 171.176T
    … - INFO - { step:[   20/  100], loss:  10.541000, per_step_time:   5377ms, lr: 1.000000e-06, …,
      throughput: 171.18T }

Degrees and batch are in the sentence that computes the global batch, sizes where a configuration is printed.
[MindFormers, `MFLossMonitor` in mindformers/core/callback/callback.py, r1.0 to r1.8, and mindformers/pynative/callback;
mindformers/trainer/trainer.py, `_check_global_batch_size_for_auto_parallel`; mindformers/parallel_core/
transformer_config_utils.py, "The converted TransformerConfig is"]
"""

import re
from collections.abc import Iterator, Mapping
from math import prod

from evenflow.profiles.logs.stage_peaks import PeakKind
from evenflow.profiles.measured.logs.degrees import shared_width
from evenflow.profiles.measured.logs.log_format import NUMBER, LogFormat, LoggedPeak, LoggedStep, PeakOf, number_in
from evenflow.profiles.measured.logs.stated import Stated
from evenflow.targets.frameworks.mindformers.peak_logs import peaks_in_line

_STEP = re.compile(r"step:\[ *([0-9]{1,12})/ *([0-9]{1,12})\]")
_EPOCH = re.compile(r"Epoch:\[ *([0-9]{1,9})/")
_TIME = re.compile(rf"per_step_time: *{NUMBER} ?ms")
_TFLOPS = re.compile(rf"throughput(?:_per_npu)?: *{NUMBER}T")
_BATCH = re.compile(r"global_batch_size: ([0-9]{1,12})")
_PRODUCT = re.compile(
    r"global_batch_size ?= ?(\w{1,60}(?: \* \w{1,60}){1,5}) = ([0-9]{1,12}(?: [*=] [0-9]{1,12}){2,6})"
)
_STAGES = re.compile(r"pipeline_stages = ([0-9]{1,6})")
_SIZES: Mapping[str, tuple[str, ...]] = {
    "hidden": ("hidden_size",), "ffn": ("ffn_hidden_size", "intermediate_size"),
    "layers": ("num_layers", "num_hidden_layers"), "heads": ("num_attention_heads", "num_heads", "n_head"),
    "kv_heads": ("num_query_groups", "num_key_value_heads", "n_kv_heads"), "head_dim": ("kv_channels", "head_dim"),
    "vocab": ("vocab_size", "padded_vocab_size"), "seq": ("seq_length", "seq_len"),
    "experts": ("num_moe_experts", "num_experts", "expert_num", "n_routed_experts"),
    "active_experts": ("moe_router_topk", "num_experts_chosen", "num_experts_per_tok"),
    "expert_ffn": ("moe_ffn_hidden_size", "moe_intermediate_size"),
    "tp": ("tensor_model_parallel_size", "model_parallel"), "cp": ("context_parallel_size", "context_parallel"),
    "ep": ("expert_model_parallel_size", "expert_parallel"), "dp": ("factor data_parallel", "data_parallel"),
    "pp": ("pipeline stages", "pipeline_model_parallel_size", "pipeline_stage"),
    "vpp": ("virtual_pipeline_model_parallel_size", "pp_interleave_num"),
    "local": ("factor batch_size", "local_batch_size"), "gbs": ("whole batch", "global_batch_size"),
}  # fmt: skip
"""Names of a field of a run, the first of which that is stated counts."""
_INTERLEAVE = ("factor micro_batch_interleave_num", "micro_batch_interleave_num")
_SHARED_EXPERTS = ("shared_expert_num", "n_shared_experts")
_GATED = ("gated_linear_unit", "swiglu")
_TIED, _PRECISION = "tie_word_embeddings", "compute_dtype"
_SEQUENCE_PARALLEL = ("use_seq_parallel", "sequence_parallel")


def _step(line: str) -> LoggedStep | None:
    time_ms = number_in(_TIME, line) if "per_step_time" in line else None
    step = _STEP.search(line)
    if time_ms is None or step is None:
        return None
    epoch, batch = _EPOCH.search(line), _BATCH.search(line)
    before = 0 if epoch is None else max(0, int(epoch[1]) - 1) * int(step[2])
    return LoggedStep(
        number=before + int(step[1]),
        time_s=time_ms / 1000,
        tflops=number_in(_TFLOPS, line),
        batch=None if batch is None else int(batch[1]),
    )


def _sentences(line: str) -> Iterator[tuple[str, str]]:
    if "global_batch_size" not in line:
        return
    if stages := _STAGES.search(line):
        yield "pipeline stages", stages[1]
    elif "current parallel mode is" in line:
        yield "pipeline stages", "1"
    if match := _PRODUCT.search(line):
        names = match[1].split(" * ")
        sides = [[int(number) for number in side.split(" * ")] for side in match[2].split(" = ")]
        for factors in sides:
            if len(factors) == len(names) and len(sides) == 2:
                yield from ((f"factor {name}", str(factor)) for name, factor in zip(names, factors, strict=True))
                yield "whole batch", str(prod(factors))


def _peaks(line: str, place: str) -> Iterator[LoggedPeak]:
    for kind, size in peaks_in_line(line, place=place):
        of = PeakOf.ALLOCATED if kind is PeakKind.USED else PeakOf.RESERVED
        yield LoggedPeak(rank=None, of=of, size_bytes=size)


def _fields(stated: Stated) -> dict[str, object]:
    sizes = {field: stated.whole(*names) for field, names in _SIZES.items()}
    experts, expert_ffn, local = (sizes.pop(name) for name in ("experts", "expert_ffn", "local"))
    experts = experts if experts and experts > 1 else None
    expert_ffn = expert_ffn if experts else None
    interleave = stated.whole(*_INTERLEAVE) or 1
    return {
        **sizes,
        "kv_heads": sizes["kv_heads"] or sizes["heads"],
        "experts": experts,
        "active_experts": sizes["active_experts"] if experts else None,
        "expert_ffn": expert_ffn,
        "notes": shared_width(stated.whole(*_SHARED_EXPERTS), expert_ffn),
        "gated_mlp": stated.flag(*_GATED),
        "tied_embeddings": stated.flag(_TIED),
        "precision": {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}.get(stated.word(_PRECISION) or ""),
        "sequence_parallel": stated.flag(*_SEQUENCE_PARALLEL),
        "mbs": local * interleave if local else None,
    }


_LOOKED_FOR = (
    *(name for names in _SIZES.values() for name in names),
    *_INTERLEAVE, *_SHARED_EXPERTS, *_GATED, _TIED, _PRECISION, *_SEQUENCE_PARALLEL,
)  # fmt: skip
MINDFORMERS = LogFormat(
    name="MindFormers",
    step=_step,
    beginnings=("Trainer Init Success",),
    fields=_fields,
    names=frozenset(name for name in _LOOKED_FOR if " " not in name),  # the others are of sentences
    sentences=_sentences,
    peaks=_peaks,
)
