"""Bytes of activations that wait for the backward, by tensor and recompute kind, of one device and microbatch."""

from evenflow.model import FULL, SELECT
from evenflow.predict.layer_work import HALF, tokens
from evenflow.predict.parameters import padded_vocabulary
from evenflow.predict.training import Training


def layer_activation_bytes(training: Training, *, has_experts: bool, kind: str) -> int:
    """Return the bytes of one body layer. [Korthikanti et al., arXiv:2205.05198, §4]"""
    model, degrees, software = training.model, training.degrees, training.software
    here = tokens(training)
    spread = here / (degrees.tensor if degrees.sequence_parallel else 1)
    passed = HALF * spread * model.hidden
    if kind == FULL:
        return round(passed)
    queries = model.heads * model.head_dim / degrees.tensor
    keys = model.kv_heads * model.head_dim / degrees.tensor
    total = 4 * passed + (2 * spread * model.hidden if model.dropout else 0)
    total += HALF * here * (2 * queries + 2 * keys)
    if not software.fused_attention and kind != SELECT:
        total += (5 if model.dropout else 4) * model.heads / degrees.tensor * here * training.sequence
    experts = model.experts
    if has_experts and experts is not None:
        routed = here * experts.active / degrees.tensor
        total += HALF * routed * (model.hidden + (3 if model.gated else 2) * experts.ffn)
        total += HALF * here * 3 * experts.shared_ffn / degrees.tensor
    else:
        total += HALF * here * (3 if model.gated else 2) * model.ffn / degrees.tensor
    return round(total)


def head_activation_bytes(training: Training) -> int:
    """Return the bytes that the embedding keeps: its tokens, and a dropout mask."""
    return round(8 * tokens(training))


def end_activation_bytes(training: Training) -> int:
    """Return the bytes that the output layer and the loss keep: their inputs, and logits in 32 bits."""
    here = tokens(training)
    return round(here * (2 * HALF * training.model.hidden + 4 * padded_vocabulary(training) / training.degrees.tensor))
