"""Whether a plan of stages on several devices fits the pipeline and the model."""

from collections.abc import Sequence

from torch import Tensor, nn

from evenflow.cluster import MeshPlan, StageOnMesh, WholeTensor, code, is_even
from evenflow.errors import InputError
from evenflow.run.engine.stages import StageParts
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
            value=len(plan.stages), rule=f"must have the {len(stages)} stages of the pipeline", place="plan, stages"
        )
    for stage, where in zip(stages, plan.stages, strict=True):
        if stage.rank != where.rank:
            raise InputError(
                value=where.rank, rule=f"must be {stage.rank}", place=f"plan, stages, rank of stage {stage.index}"
            )
        given, planned = tuple(boundaries[stage.index].shape), where.input.shape
        if given != planned:
            raise InputError(
                value=list(given),
                rule=f"must have the shape that the plan was made for, {list(planned)}",
                place="microbatch" if stage.index == 0 else f"input of stage {stage.index}",
                remedy="run the model, the sequences and the microbatch of the plan, or plan for these",
            )
        _check_parameters(stage, where)
    for name, module in model.whole.named_modules():
        if (isinstance(module, nn.Dropout) and module.p > 0) or getattr(module, "attention_dropout", 0):
            raise InputError(
                value=name,
                rule="must have no dropout where a stage has several devices, whose placement would decide its numbers",
                place="model",
                remedy="set dropout to 0",
            )


def _check_parameters(stage: StageParts, where: StageOnMesh) -> None:
    shapes = {
        name: tuple(parameter.shape)
        for part in stage.parts
        for name, parameter in part.module.named_parameters(prefix=part.path, remove_duplicate=False)
    }
    other = sorted(shapes.keys() ^ where.parameters.keys())
    if other:
        whose = "model" if other[0] in shapes else "plan"
        raise InputError(
            value=other[0],
            rule=f"must have the parameters of the model, but this one is only in the {whose}",
            place=f"plan, stages, stage {stage.index}",
            remedy="run the model that the plan was made for",
        )
    for name, shape in shapes.items():
        placement = where.parameters[name]
        if not is_even(WholeTensor(shape=shape, item_bytes=1), placement, where.mesh):
            raise InputError(
                value=code(placement),
                rule=f"must split its shape {shape} into equal parts on the {where.mesh} devices of its stage",
                place=f"plan, stages, placement of {name}",
                remedy="run the model that the plan was made for",
            )
