"""Whether a plan of stages on several devices fits the pipeline and the model."""

from collections.abc import Sequence

from torch import Tensor

from evenflow.cluster import MeshPlan, StageOnMesh, WholeTensor, code, is_even
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.run.engine.stages import StageParts
from evenflow.torch_model.families.row_modules import dropping_module
from evenflow.torch_model.parts import ModelRow


def check_mesh_plan(
    plan: MeshPlan, model: ModelRow, stages: Sequence[StageParts], boundaries: Sequence[Tensor]
) -> None:
    """Check that a plan is for these stages, this model and this microbatch, whose shapes `boundaries` have.

    Raises:
        InputError: says what differs.
    """
    if len(plan.stages) != len(stages):
        raise InputError(
            value=len(plan.stages),
            rule=_("must have the {count} stages of the pipeline", count=len(stages)),
            place=_("plan, stages"),
        )
    for stage, where in zip(stages, plan.stages, strict=True):
        if stage.rank != where.rank:
            raise InputError(
                value=where.rank,
                rule=_("must be {rank}", rank=stage.rank),
                place=_("plan, stages, rank of stage {index}", index=stage.index),
            )
        given, planned = tuple(boundaries[stage.index].shape), where.input.shape
        if given != planned:
            raise InputError(
                value=list(given),
                rule=_("must have the shape that the plan was made for, {planned}", planned=list(planned)),
                place="microbatch" if stage.index == 0 else _("input of stage {index}", index=stage.index),
                remedy=_("run the model, the sequences and the microbatch of the plan, or plan for these"),
            )
        _check_parameters(stage, where)
    name = dropping_module(model.whole)
    if name is not None:
        raise InputError(
            value=name,
            rule=_("must have no dropout where a stage has several devices, whose placement would decide its numbers"),
            place="model",
            remedy=_("set dropout to 0"),
        )


def _check_parameters(stage: StageParts, where: StageOnMesh) -> None:
    shapes = {
        name: tuple(parameter.shape)
        for part in stage.parts
        for name, parameter in part.module.named_parameters(prefix=part.path, remove_duplicate=False)
    }
    other = sorted(shapes.keys() ^ where.parameters.keys())
    if other:
        raise InputError(
            value=other[0],
            rule=_("must have the parameters of the model, but this one is only in the model")
            if other[0] in shapes
            else _("must have the parameters of the model, but this one is only in the plan"),
            place=_("plan, stages, stage {index}", index=stage.index),
            remedy=_("run the model that the plan was made for"),
        )
    placed = (*where.parameters.items(), *where.gradients.items(), *where.updates.items())
    for name, placement in placed:
        shape = shapes.get(name, ())
        if name in shapes and not is_even(WholeTensor(shape=shape, item_bytes=1), placement, where.mesh):
            raise InputError(
                value=code(placement),
                rule=_(
                    "must split its shape {shape} into equal parts on the {mesh} devices of its stage",
                    shape=shape,
                    mesh=where.mesh,
                ),
                place=_("plan, stages, placement of {name}", name=name),
                remedy=_("run the model that the plan was made for"),
            )
