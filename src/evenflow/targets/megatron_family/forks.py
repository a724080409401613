"""Which fork of Megatron-LM a launch script is for, and whether the Megatron-LM that it lies in knows layouts.

A script says it by flags that only the fork has, or by lying in a checkout of it.
"""

import re
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
_LAYOUT = "megatron/core/transformer/pipeline_parallel_layer_layout.py"
_ARGUMENTS = ("megatron/training/arguments.py", "megatron/arguments.py")
_MOST_PARENTS = 8


def is_megatron_deepspeed(text: str, file: str) -> bool:
    """Return whether a script for Megatron-LM has flags of Megatron-DeepSpeed."""
    return is_run(text, file) and not is_printed(text) and bool(_DEEPSPEED_FLAG.search(text))


def knows_no_layout(text: str, file: str) -> bool:
    """Return whether a script is for a Megatron-LM that has no ``--pipeline-model-parallel-layout``.

    Megatron-LM has it from core 0.13 on. A script that gives it says so; one in a checkout of Megatron-LM is for that
    one, and flags that were gone by then are of an older one or of a fork.
    """
    if "--pipeline-model-parallel-layout" in text:
        return False
    checkout = _checkout(Path(file))
    if checkout is not None:
        return not (checkout / _LAYOUT).is_file()
    return bool(_OLD_FLAG.search(text))


def _checkout(file: Path) -> Path | None:
    """Return the folder above a script that has Megatron-LM in it; None where there is none."""
    try:
        folders = list(file.resolve().parents)[:_MOST_PARENTS]
        return next((folder for folder in folders if any((folder / name).is_file() for name in _ARGUMENTS)), None)
    except OSError:
        return None
