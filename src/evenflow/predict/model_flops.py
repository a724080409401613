"""The floating-point operations that a model needs for a step, however it is split."""

from collections import Counter
from dataclasses import replace

from evenflow.predict.end_work import tail_passes, tower_passes
from evenflow.predict.layer_work import layer_passes
from evenflow.predict.tower import tower_parts
from evenflow.predict.training import Degrees, Software, Training
from evenflow.predict.work import Operators, Work

_FORWARD_AND_BACKWARD = 3
"""The backward of a product is two products of the same size."""


def model_flops(training: Training) -> float:
    """Return the floating-point operations that the model needs for one step, on all devices together.

    Products of forward and backward without recomputation, but for the gradients of what is not trained; of experts
    only active ones. Attention counts in full, masked or not, as published figures mostly have it. [Megatron-LM,
    arXiv:2104.04473, appendix]
    """
    whole = _whole(training)
    model = whole.model
    passes = _FORWARD_AND_BACKWARD - (1 if model.adapter_rank else 0)
    flops = passes * _flops(tail_passes(whole).forward)
    for kind, count in Counter(model.kinds).items():
        work = layer_passes(whole, kind)
        flops += count * ((1 if kind.frozen else passes) * _flops(work.forward) + _flops(work.unkept))
    for part in tower_parts(whole):
        flops += (_FORWARD_AND_BACKWARD if part.is_trained else 1) * _flops(tower_passes(part).forward)
    return flops * training.global_batch


def _whole(training: Training) -> Training:
    """Return the training of one sequence on one device, with experts of unlimited capacity."""
    model = training.model
    if model.experts is not None:
        model = replace(model, experts=replace(model.experts, capacity_factor=None))
    return Training(
        model=model, degrees=Degrees(), microbatch=1, global_batch=1, sequence=training.sequence,
        software=Software(skips_masked=False),
    )  # fmt: skip


def _flops(works: tuple[Work, ...]) -> float:
    return sum(work.flops for work in works if isinstance(work, Operators))
