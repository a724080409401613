"""Recomputation by the flags that Megatron-LM 2 had for it, and that Megatron-DeepSpeed still has.

Until 2.5 all layers were checkpointed, in groups of ``--checkpoint-num-layers``; 2.6 had a method and a number, which
3.0 named ``--recompute-method`` and ``--recompute-num-layers``. [Megatron-LM, `arguments.py` of 2.5, 2.6 and 3.0]
"""

from typing import NamedTuple

from evenflow.ranges import LAYERS, Range
from evenflow.targets.megatron_family.arguments import Arguments

SWITCH, NUMBER = "checkpoint_activations", "checkpoint_num_layers"
METHOD, METHOD_NUMBER = "activations_checkpoint_method", "activations_checkpoint_num_layers"


class OldCheckpointing(NamedTuple):
    """Full recomputation that old flags ask for."""

    key: str
    """The argument that asks for it."""
    method: str
    """Either ``uniform`` or ``block``."""
    number: int
    """Layers of a group, or first layers of every cell."""


def old_checkpointing(arguments: Arguments) -> OldCheckpointing | None:
    """Return the recomputation that the old flags among arguments ask for; None where they ask for none.

    Raises:
        InputError: a method or a number that Megatron-LM refuses.
    """
    method = arguments.choice(METHOD, ("uniform", "block"))
    within = Range(least=0 if method == "block" else 1, most=LAYERS.most)
    if method is not None:
        number = arguments.integer(METHOD_NUMBER, within)
        return OldCheckpointing(METHOD, method, 1 if number is None else number)
    if not arguments.switch(SWITCH):
        return None
    numbers = [arguments.integer(key, within) for key in (NUMBER, METHOD_NUMBER)]
    return OldCheckpointing(SWITCH, "uniform", next((number for number in numbers if number is not None), 1))
