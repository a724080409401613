"""Experts with adapters (LoRA) beside both of their products, as one adapter for each expert.

rows [rows, hidden] --up, adapter--> inner --gate--> activated [rows, width] --down, adapter--> [rows, hidden]

Plain operators in a loop over the experts that have rows: no copy of the matrices is made with the adapters added.
[arXiv:2106.09685, §4.1]
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from evenflow_torch.models.experts.gates import gate_named
from evenflow_torch.models.experts.library import GivenExperts
from evenflow_torch.models.experts.operator import dealt
from evenflow_torch.models.experts.products import spans


@dataclass(frozen=True, slots=True)
class Beside:
    """The adapters beside one product of every expert."""

    first: Tensor
    """[experts, rank, in]"""
    second: Tensor
    """[experts, out, rank]"""


def adapted_experts(inputs: GivenExperts, up: Beside, down: Beside) -> Tensor:
    """Return what experts with adapters make of their tokens [tokens, hidden]."""
    order, counts = dealt(inputs.index, inputs.up.shape[0])
    choices = inputs.index.shape[1]
    rows = inputs.hidden[order // choices]
    gate = gate_named(inputs.gate)
    results = []
    for expert, own in spans(counts):
        inner = _product(rows[own], expert, inputs.up, inputs.up_bias, up, transposed=inputs.transposed)
        results.append(_product(gate(inner), expert, inputs.down, inputs.down_bias, down, transposed=inputs.transposed))
    results.append(rows.new_zeros(len(rows) - sum(counts), rows.shape[1]))  # of choices that are no expert's
    by_choice = torch.cat(results)[torch.argsort(order)]
    weighed = by_choice * inputs.weights.reshape(-1, 1)
    return weighed.view(*inputs.index.shape, -1).sum(1).to(inputs.hidden.dtype)


def _product(
    rows: Tensor, expert: int, matrix: Tensor, bias: Tensor | None, beside: Beside, *, transposed: bool
) -> Tensor:
    own = matrix[expert].mT if transposed else matrix[expert]
    product = functional.linear(rows, own, None if bias is None else bias[expert])
    return product + functional.linear(functional.linear(rows, beside.first[expert]), beside.second[expert])
