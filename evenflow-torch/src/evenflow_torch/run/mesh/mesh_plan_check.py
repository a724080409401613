"""Whether a plan of stages on several devices fits the pipeline and the model."""

from collections.abc import Sequence
from math import prod
from typing import Any

from torch import Tensor, nn

from evenflow.cluster import MeshPlan, Placement, StageOnMesh, WholeTensor, code, is_even
from evenflow.errors import InputError
from evenflow.language import _
from evenflow_torch.models.families.row_modules import dropping_module
from evenflow_torch.models.parts import ModelRow
from evenflow_torch.run.engine.stages import StageParts
from evenflow_torch.run.mesh.mesh_experts import EXPERTS, WIDTH

_MATRICES = 3
"""Dimensions of the parameter that holds a matrix of every expert."""


def check_mesh_plan(
    plan: MeshPlan,
    model: ModelRow,
    stages: Sequence[StageParts],
    boundaries: Sequence[Tensor],
    *,
    is_seeded: bool = True,
) -> None:
    """Check that a plan is for these stages, this model and this microbatch, whose shapes `boundaries` have.

    `is_seeded` says whether all devices draw the same random numbers.

    Raises:
        InputError: says what differs.
    """
    if len(plan.stages) != len(stages):
        raise InputError(
            value=len(plan.stages),
            rule=_("must have the {count} stages of the pipeline", count=len(stages)),
            place=_("plan, stages"),
        )
    for stage, on_mesh in zip(stages, plan.stages, strict=True):
        if stage.rank != on_mesh.rank:
            raise InputError(
                value=on_mesh.rank,
                rule=_("must be {rank}", rank=stage.rank),
                place=_("plan, stages, rank of stage {index}", index=stage.index),
            )
        actual, planned = tuple(boundaries[stage.index].shape), on_mesh.input.shape
        if actual != planned:
            raise InputError(
                value=list(actual),
                rule=_("must have the shape that the plan was made for, {planned}", planned=list(planned)),
                place="microbatch" if stage.index == 0 else _("input of stage {index}", index=stage.index),
                remedy=_("run the model, the sequences and the microbatch of the plan, or plan for these"),
            )
        _check_parameters(stage, on_mesh)
        for part in stage.parts:
            for path, module in part.module.named_modules(prefix=part.path):
                product = on_mesh.products.get(path)
                if product is not None and product.experts is not None:
                    _check_experts(path, module, product.experts, on_mesh.mesh)
                elif plan.expert_capacity is not None and hasattr(module, "is_transposed"):
                    raise InputError(
                        rule=_("must say how these experts are split, whose capacity is limited"),
                        place=_("plan, stages, products, {name}", name=path),
                        remedy=_("plan again without --expert-capacity"),
                    )
    name = dropping_module(model.whole)
    if name is not None and not is_seeded:
        raise InputError(
            value=name,
            rule=_(
                "must have no dropout without a seed where a stage has several devices, which would draw other numbers"
            ),
            place="model",
            remedy=_("give pipeline a seed, or set dropout to 0"),
        )
    for path, module in model.whole.named_modules():
        if isinstance(module, nn.MultiheadAttention) and module.dropout > 0:
            raise InputError(
                value=path,
                rule=_("must have no dropout inside of torch.nn.MultiheadAttention where a stage has several devices"),
                place="model",
                remedy=_("set its dropout to 0"),
            )


def _check_experts(name: str, module: Any, placement: Placement, mesh: Sequence[int]) -> None:
    """Check that a module of experts has as many, and as wide ones, as devices can share."""
    down = getattr(module, "down_proj", None)
    if not isinstance(down, Tensor) or down.dim() != _MATRICES:
        raise InputError(
            value=name,
            rule=_("must be a layer of experts"),
            place=_("plan, stages, products"),
            remedy=_("run the model that the plan was made for"),
        )
    width = down.shape[1 if module.is_transposed else 2]
    for dimension, size in ((EXPERTS, down.shape[0]), (WIDTH, width)):
        devices = prod(count for count, split in zip(mesh, placement, strict=True) if split == dimension)
        if size % devices:
            raise InputError(
                value=size,
                rule=_("must divide over the {devices} devices that share experts", devices=devices),
                place=_("plan, stages, products, {name}", name=name),
                remedy=_("run the model that the plan was made for"),
            )


def _check_parameters(stage: StageParts, on_mesh: StageOnMesh) -> None:
    shapes = {
        name: tuple(parameter.shape)
        for part in stage.parts
        for name, parameter in part.module.named_parameters(prefix=part.path, remove_duplicate=False)
    }
    other = sorted(shapes.keys() ^ on_mesh.parameters.keys())
    if other:
        raise InputError(
            value=other[0],
            rule=_("must have the parameters of the model, but this one is only in the model")
            if other[0] in shapes
            else _("must have the parameters of the model, but this one is only in the plan"),
            place=_("plan, stages, stage {index}", index=stage.index),
            remedy=_("run the model that the plan was made for"),
        )
    placed = (*on_mesh.parameters.items(), *on_mesh.gradients.items(), *on_mesh.updates.items())
    for name, placement in placed:
        shape = shapes.get(name, ())
        if name in shapes and not is_even(WholeTensor(shape=shape, item_bytes=1), placement, on_mesh.mesh):
            raise InputError(
                value=code(placement),
                rule=_(
                    "must split its shape {shape} into equal parts on the {mesh} devices of its stage",
                    shape=shape,
                    mesh=on_mesh.mesh,
                ),
                place=_("plan, stages, placement of {name}", name=name),
                remedy=_("run the model that the plan was made for"),
            )
