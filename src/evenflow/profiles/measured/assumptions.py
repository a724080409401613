"""Values assumed for fields that a measured run does not state: rules of physics and habit, none for one source.

Some fields follow from others, or are empty because a plain model does not have what they describe; nothing is assumed
then. Everything else that is put in is listed.
"""

from collections.abc import Callable
from dataclasses import replace

from evenflow.language import _
from evenflow.predict.vocabulary import Aspect
from evenflow.profiles.measured.framework_words import is_fully_shared, software_of
from evenflow.profiles.measured.layouts import usual_layout
from evenflow.profiles.measured.run import Assumption, MeasuredRun
from evenflow.profiles.measured.settings import expert_tensor_of, settings_of

GPT2_VOCABULARY = 50_257
LLAMA2_VOCABULARY = 32_000
DEEPSEEK_VOCABULARY = 129_280
_BEFORE_2022 = ("v100", "a100")
_NODES_OF_FOUR = ("gb200", "gb300")
_EIGHT_BIT = ("b200", "b300", "gb200", "gb300")


def completed(run: MeasuredRun) -> MeasuredRun:
    """Return `run` with a value in every field that a prediction needs, and in `assumed` what was not stated.

    Fields of `MeasuredRun.lacks` stay empty. Values never depend on the source, nor on what was measured.
    """
    if run.lacks:
        return run
    for name, value in _RULES:
        if getattr(run, name) is None or (name == "hardware" and run.hardware in _SIZE_UNKNOWN):
            assumed_value, reason = value(run)
            run = replace(run, **{name: assumed_value})  # type: ignore[arg-type]
            if reason:
                run = replace(run, assumed=(*run.assumed, Assumption(field=name, value=assumed_value, reason=reason)))
    return run


_Rule = Callable[[MeasuredRun], tuple[object, str]]
"""From a run, in which all earlier rules have been followed, to a value and the reason; none where it follows."""
_SIZE_UNKNOWN = {"a100": "a100-80", "v100": "v100-32"}


def _hardware(run: MeasuredRun) -> tuple[object, str]:
    if run.hardware is None:
        return "h100", _("the most frequent one")
    return _SIZE_UNKNOWN[run.hardware], _("memory size not stated: the larger one")


def _vocabulary(run: MeasuredRun) -> tuple[object, str]:
    if "vocab.json" in (run.notes or "") or not run.gated_mlp:
        return GPT2_VOCABULARY, _("the vocabulary of GPT-2")
    if settings_of(run).is_on("multi-latent-attention"):
        return DEEPSEEK_VOCABULARY, _("latent attention: the vocabulary of DeepSeek-V3")
    return LLAMA2_VOCABULARY, _("three-matrix blocks: the vocabulary of Llama 2 and Mixtral")


def _ep(run: MeasuredRun) -> tuple[object, str]:
    return 1, "" if not run.experts else _("experts are not said to be distributed")


def _gpus(run: MeasuredRun) -> tuple[object, str]:
    of_experts = run.ep * expert_tensor_of(run)  # type: ignore[operator]
    least = run.pp * max(run.tp * run.cp, of_experts)  # type: ignore[operator]
    return max(8, least) if 8 % least == 0 else least, _("a node of eight, or as many as the degrees need")


def _dp(run: MeasuredRun) -> tuple[object, str]:
    return max(1, run.gpus // (run.tp * run.pp * run.cp)), ""  # type: ignore[operator]


def _is_since_2022(run: MeasuredRun) -> bool:
    return not str(run.hardware).startswith(_BEFORE_2022)


def _schedule(run: MeasuredRun) -> tuple[object, str]:
    if run.pp == 1:
        return "1f1b", ""
    return ("interleaved", "") if run.vpp != 1 else ("1f1b", _("usual with one chunk"))


def _layout(run: MeasuredRun) -> tuple[object, str]:
    layout = usual_layout(run)
    return layout or None, _("layers cannot be dealt evenly: {layout}", layout=layout) if layout else ""


def _sequence_parallel(run: MeasuredRun) -> tuple[object, str]:
    if run.tp == 1:
        return False, ""
    since = _is_since_2022(run)
    return since, _("on with tensor parallelism since 2022, so on accelerators later than A100")


def _zero(run: MeasuredRun) -> tuple[object, str]:
    stated = software_of(run).about(Aspect.SHARDING)
    if stated is not None:
        return stated.name.removeprefix("zero-"), ""
    if run.dp == 1:
        return "0", ""
    return ("distopt" if _is_since_2022(run) else "0"), _("usual on accelerators later than A100, and not before")


def _precision(run: MeasuredRun) -> tuple[object, str]:
    name = str(run.hardware)
    kind = "fp16" if name.startswith(_BEFORE_2022) else "fp8" if name.startswith(_EIGHT_BIT) else "bf16"
    return kind, _("the usual format of the accelerator: fp16 up to A100, fp8 on Blackwell, else bf16")


def _recompute(run: MeasuredRun) -> tuple[object, str]:
    if is_fully_shared(run):
        return "selective", _("not mentioned: usual where parameters are fully sharded")
    return "none", _("not mentioned")


def _dispatcher(run: MeasuredRun) -> tuple[object, str]:
    crosses_nodes = bool(run.experts) and (run.ep or 1) * (run.tp or 1) > (run.gpus_per_node or 8)
    if not crosses_nodes or not _is_since_2022(run):
        return "", ""
    return "deepep", _("not mentioned: tokens for experts are sent to a node once, as usual since 2025")


def _nodes(run: MeasuredRun) -> tuple[object, str]:
    return 4 if str(run.hardware) in _NODES_OF_FOUR else 8, _("8, or 4 on GB200 and GB300")


_RULES: tuple[tuple[str, _Rule], ...] = (
    ("experts", lambda run: (0, "")),
    ("mtp_layers", lambda run: (0, "")),
    ("shared_experts", lambda run: (0, "")),
    ("active_experts", lambda run: (1, _("the fewest")) if run.experts else (0, "")),
    ("gated_mlp", lambda run: (False, _("two matrices, as in GPT"))),
    ("ffn", lambda run: (4 * (run.hidden or 0), _("four times the hidden size, as in GPT"))),
    ("expert_ffn", lambda run: (run.ffn, _("as wide as a dense layer")) if run.experts else (0, "")),
    ("heads", lambda run: (max(1, (run.hidden or 0) // 128), _("128 wide"))),
    ("kv_heads", lambda run: (run.heads, _("every head has its own keys and values, as in GPT"))),
    ("head_dim", lambda run: (max(1, (run.hidden or 0) // (run.heads or 1)), "")),
    ("vocab", _vocabulary),
    ("tied_embeddings", lambda run: (not run.gated_mlp, _("shared with two-matrix blocks, as in GPT, else not"))),
    ("hardware", _hardware),
    ("gpus_per_node", _nodes),
    ("cp", lambda run: (1, "")),
    ("vpp", lambda run: (1, "" if run.pp == 1 else _("one chunk"))),
    ("ep", _ep),
    ("gpus", _gpus),
    ("dp", _dp),
    ("microbatches", lambda run: (max(1, run.gbs // ((run.dp or 1) * (run.mbs or 1))), "")),  # type: ignore[operator]
    ("schedule", _schedule),
    ("layout", _layout),
    ("precision", _precision),
    ("sequence_parallel", _sequence_parallel),
    ("zero", _zero),
    ("recompute", _recompute),
    ("overlap_flags", _dispatcher),
)
