"""Adapters (LoRA) beside the products of a model's layers, which are trained alone.

    y = W x + B (A x)        A [rank, in] begins at random, B [out, rank] at zero

[arXiv:2106.09685, §4.1]
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from evenflow.errors import InputError
from evenflow.language import _
from evenflow_torch.models.families.row_modules import mix_in
from evenflow_torch.models.parts import ModelRow

FIRST, SECOND = "adapter_a", "adapter_b"
"""Names of the two matrices, beside the weight of their product."""


class _Adapted(nn.Module):
    """A linear product with an adapter beside it; mixed into the class of the product."""

    adapter_a: Tensor
    adapter_b: Tensor

    def forward(self, hidden: Tensor) -> Tensor:
        product: Tensor = super().forward(hidden)
        return product + functional.linear(functional.linear(hidden, self.adapter_a), self.adapter_b)


def train_adapters(model: ModelRow, rank: int, *, frozen_layers: int) -> None:
    """Put an adapter of this width beside every product of the layers, and train nothing else.

    Of the first `frozen_layers` nothing is trained, so they have none.

    Raises:
        InputError: a layer with weights of products that are no linear modules, as those of experts.
    """
    for part in model.parts:
        part.module.requires_grad_(False)
    for layer, part in enumerate(model.body):
        for path, module in part.module.named_modules():
            if isinstance(module, nn.Linear):
                if layer >= frozen_layers:
                    _adapt(module, rank)
            elif any(parameter.dim() > 1 for parameter in module.parameters(recurse=False)):
                raise InputError(
                    value=rank,
                    rule=_(
                        "must be 0 for this model: {path} of layer {layer} is no linear module, as all with an adapter "
                        "are",
                        path=path or type(module).__name__,
                        layer=layer,
                    ),
                    place="--lora",
                    remedy=_("run the plan with your framework, or --lora 0"),
                )


def _adapt(module: nn.Linear, rank: int) -> None:
    weight = module.weight
    for name, shape in ((FIRST, (rank, module.in_features)), (SECOND, (module.out_features, rank))):
        values = torch.empty(shape, dtype=weight.dtype, device=weight.device)
        module.register_parameter(name, nn.Parameter(values))
    mix_in(module, _Adapted)
