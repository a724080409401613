"""Adapters (LoRA) beside the products of a model's layers, which are trained alone.

    y = W x + B (A x)        A [rank, in] begins at random, B [out, rank] at zero

Each expert of a layer has its own; routers have none. [arXiv:2106.09685, §4.1]
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from evenflow.cluster import REPLICATED, MeshPlan, Placement
from evenflow.errors import InputError
from evenflow.language import _
from evenflow_torch.models.experts.adapted import Beside, adapted_experts
from evenflow_torch.models.experts.library import GivenExperts, experts_of, first_matrix, has_plain_gate, is_experts
from evenflow_torch.models.families.row_modules import mix_in
from evenflow_torch.models.parts import ModelRow
from evenflow_torch.run.engine.stages import StageParts

FIRST, SECOND = "adapter_a", "adapter_b"
"""Names of the two matrices, beside the weight of their product; behind the name of the product of experts."""
_SECOND_PRODUCT = "down_proj"


class _Adapted(nn.Module):
    """A linear product with an adapter beside it; mixed into the class of the product."""

    adapter_a: Tensor
    adapter_b: Tensor

    def forward(self, hidden: Tensor) -> Tensor:
        product: Tensor = super().forward(hidden)
        return product + functional.linear(functional.linear(hidden, self.adapter_a), self.adapter_b)


class _AdaptedExperts(nn.Module):
    """Experts with adapters beside both products; mixed into their class."""

    def forward(self, hidden: Tensor, index: Tensor, weights: Tensor) -> Tensor:
        return experts_of(_with_adapters, self, hidden, index, weights)


def _with_adapters(module: Any, inputs: GivenExperts) -> Tensor:
    up, down = (
        Beside(getattr(module, f"{product}_{FIRST}"), getattr(module, f"{product}_{SECOND}"))
        for product in (first_matrix(module), _SECOND_PRODUCT)
    )
    return adapted_experts(inputs, up, down)


def train_adapters(model: ModelRow, rank: int, *, frozen_layers: int) -> None:
    """Put an adapter of this width beside every product of the layers, and train nothing else.

    Of the first `frozen_layers` nothing is trained, so they have none.

    Raises:
        InputError: a layer with weights of products that are neither linear modules nor experts of transformers.
    """
    for part in model.parts:
        part.module.requires_grad_(False)
    for layer, part in enumerate(model.body):
        for path, module in part.module.named_modules():
            adapt = _adapting(module)
            if adapt is not None:
                if layer >= frozen_layers:
                    adapt(module, rank)
            elif _has_matrix(module) and not type(module).__name__.endswith("Router"):
                raise InputError(
                    value=rank,
                    rule=_(
                        "must be 0 for this model: {path} of layer {layer} is neither a linear module nor experts of "
                        "gates without parameters, beside which adapters can stand",
                        path=path or type(module).__name__,
                        layer=layer,
                    ),
                    place="--lora",
                    remedy=_("run the plan with your framework, or --lora 0"),
                )


def with_adapters(plan: MeshPlan, stages: Sequence[StageParts]) -> MeshPlan:
    """Return a plan of stages on several devices that places the adapters of these stages too.

    Where a product is computed in columns, so is that of the second matrix; where in rows, that of the first. All else
    of them is on every device.

    Raises:
        InputError: adapters of experts, whose tokens devices exchange.
    """
    placed = []
    for stage, on_mesh in zip(stages, plan.stages, strict=True):
        used = {**on_mesh.parameters, **on_mesh.gathered}
        adapters: dict[str, Placement] = {}
        for part in stage.parts:
            for path, module in part.module.named_modules(prefix=part.path):
                if isinstance(module, _AdaptedExperts):
                    raise InputError(
                        value=path,
                        rule=_("must have no experts beside which adapters stand, where stages have several devices"),
                        place="--lora",
                        remedy=_("plan the pipeline alone with evenflow plan, or leave the experts' adapters out"),
                    )
                if isinstance(module, _Adapted):
                    whole = used.get(f"{path}.weight", (REPLICATED,) * len(on_mesh.mesh))
                    for name, dimension in ((FIRST, 1), (SECOND, 0)):
                        adapters[f"{path}.{name}"] = tuple(
                            dimension if split == dimension else REPLICATED for split in whole
                        )
        placed.append(replace(on_mesh, parameters={**on_mesh.parameters, **adapters}))
    return replace(plan, stages=tuple(placed))


def _adapting(module: nn.Module) -> Any:
    """Return the function that puts adapters beside the products of a module; None where there is none."""
    if isinstance(module, nn.Linear):
        return _adapt
    return _adapt_experts if is_experts(module) and has_plain_gate(module) else None


def _has_matrix(module: nn.Module) -> bool:
    return any(parameter.numel() > max(parameter.shape, default=1) for parameter in module.parameters(recurse=False))


def _adapt(module: nn.Linear, rank: int) -> None:
    _register(module, module.weight, FIRST, (rank, module.in_features))
    _register(module, module.weight, SECOND, (module.out_features, rank))
    mix_in(module, _Adapted)


def _adapt_experts(module: Any, rank: int) -> None:
    for product in (first_matrix(module), _SECOND_PRODUCT):
        matrix = getattr(module, product)
        count, *sizes = matrix.shape
        read, given = sizes if module.is_transposed else reversed(sizes)
        _register(module, matrix, f"{product}_{FIRST}", (count, rank, read))
        _register(module, matrix, f"{product}_{SECOND}", (count, given, rank))
    mix_in(module, _AdaptedExperts)


def _register(module: nn.Module, like: Tensor, name: str, shape: tuple[int, ...]) -> None:
    values = torch.empty(shape, dtype=like.dtype, device=like.device)
    module.register_parameter(name, nn.Parameter(values))
