"""Configurations in words."""

from evenflow.language import _
from evenflow.model import NONE, Plan
from evenflow.predict.training import Training


def split_words(training: Training) -> str:
    """Return how a training is split: ``tensor 8, pipeline 4 x 2, data 8``."""
    degrees = training.degrees
    ways = [f"tensor {degrees.tensor}", f"pipeline {degrees.pipeline}"]
    ways[1] += f" x {degrees.chunks}" if degrees.chunks > 1 else ""
    ways += [f"context {degrees.context}"] if degrees.context > 1 else []
    ways += [f"data {degrees.data}"]
    ways += [f"expert {degrees.expert}"] if training.model.experts else []
    if degrees.optimizer_offload:
        ways += [_("{share:g} % of the optimizer on the host", share=100 * degrees.optimizer_offload)]
    return ", ".join(ways)


def recompute_words(plan: Plan) -> str:
    """Return which layers a plan computes again, in short: ``full 24 of 80``, ``select 60+full 20``, ``none``."""
    counts = {kind: sum(map(sum, plan.recompute[kind])) for kind in plan.used_kinds if kind != NONE}
    if not counts:
        return NONE
    if len(counts) > 1:
        return "+".join(f"{kind} {count}" for kind, count in counts.items())
    (kind, count), all_layers = next(iter(counts.items())), plan.num_layers
    return kind if count == all_layers else _("{kind} {count} of {layers}", kind=kind, count=count, layers=all_layers)
