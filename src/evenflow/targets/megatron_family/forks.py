"""Which fork of Megatron-LM a launch script is for, and whether the Megatron-LM that it lies in knows layouts.

A script says it by flags that only the fork has, or by lying in a checkout of it.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from evenflow.targets.megatron_family.arguments import is_printed
from evenflow.targets.megatron_family.baseline import is_run

_DEEPSPEED_FLAG = re.compile(
    r"--(?:deepspeed|deepspeed[-_]config|deepspeed-activation-checkpointing|pp-partition-method)\b(?!-)"
)
_OLD_FLAG = re.compile(
    r"--(?:checkpoint-activations|activations-checkpoint-method|enable-zero-bubble|zero-bubble-v-schedule"
    r"|enable-zbh1-pipeline|enable-1f1b-v|num-seq-splits|DDP-impl)\b"
)
"""Flags of Megatron-LM 2, of forks of it, and of forks that schedule by themselves: all of before 0.13."""
_OLD_CHECKPOINTING = re.compile(r"--(?:checkpoint-activations|checkpoint-num-layers|activations-checkpoint-[\w-]+)\b")
"""Flags of recomputation that Megatron-LM 3 refuses."""
_BIGSCIENCE_FLAG = re.compile(
    r"--(?:pp-partition-method|kill-switch-path|embed-layernorm|eval-only|glu-activation|pad-vocab-size-to"
    r"|position-embedding-type|loss-on-targets-only|skip-train-iteration-range|codecarbon-dir|log-level(?:-replica)?"
    r"|(?:train|valid|test)-weighted-split-paths(?:-path)?|sync-tp-duplicated-parameters|use-bnb-optimizer"
    r"|abort-on-unmet-fused-kernel-constraints|reweight-loss-based-on-position-frequency)(?![\w-])"
)
"""Flags of BigScience's Megatron-DeepSpeed that Microsoft's has not."""
_LAYOUT = "megatron/core/transformer/pipeline_parallel_layer_layout.py"
_ARGUMENTS = ("megatron/training/arguments.py", "megatron/arguments.py")
_MOST_PARENTS = 8


def is_megatron_deepspeed(text: str, file: str) -> bool:
    """Return whether a script for Megatron-LM has flags of Megatron-DeepSpeed."""
    return is_run(text, file) and not is_printed(text) and bool(_DEEPSPEED_FLAG.search(text))


def has_partition_method(text: str, file: str) -> bool | None:
    """Return whether a script is for a Megatron-DeepSpeed with ``--pp-partition-method``, which BigScience's has.

    The checkout that it lies in says so, and else its flags; None where neither does.
    """
    flags = _checkout_flags(file)
    if flags is not None:
        return "--pp-partition-method" in flags
    return True if _BIGSCIENCE_FLAG.search(text) else None


def has_old_checkpointing(text: str, file: str) -> bool:
    """Return whether a script is for Megatron-LM 2, which recomputes by ``--checkpoint-activations``."""
    flags = _checkout_flags(file)
    if flags is not None:
        return "--recompute-granularity" not in flags
    return bool(_OLD_CHECKPOINTING.search(text)) and "--recompute-granularity" not in text


def knows_no_layout(text: str, file: str) -> bool:
    """Return whether a script is for a Megatron-LM that has no ``--pipeline-model-parallel-layout``.

    Megatron-LM has it from core 0.13 on. A script that gives it says so; one in a checkout of Megatron-LM is for that
    one, and flags that were gone by then are of an older one or of a fork.
    """
    if "--pipeline-model-parallel-layout" in text:
        return False
    if file_above(file, _ARGUMENTS) is not None:
        return file_above(file, (_LAYOUT,)) is None
    return bool(_OLD_FLAG.search(text))


def _checkout_flags(file: str) -> str | None:
    """Return the text that defines the flags of the checkout that a script lies in; None where it lies in none."""
    path = file_above(file, _ARGUMENTS)
    try:
        return None if path is None else path.read_text("utf-8", "replace")
    except OSError:
        return None


def file_above(file: str, names: Sequence[str]) -> Path | None:
    """Return the first file with one of these names, as paths, in a folder above `file`; None where there is none."""
    try:
        folders = list(Path(file).resolve().parents)[:_MOST_PARENTS]
        return next((folder / name for folder in folders for name in names if (folder / name).is_file()), None)
    except OSError:
        return None
