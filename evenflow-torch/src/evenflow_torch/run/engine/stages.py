"""The stages of a plan, cut out of the real model."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import NONE, RECOMPUTE_PARTS, Plan, segment_length
from evenflow.schedule import Op, Schedule
from evenflow_torch.models.checkpointing import Patterns, under_checkpoint
from evenflow_torch.models.part_output import part_output
from evenflow_torch.models.parts import Context, ModelRow, Part
from evenflow_torch.run.engine.offload import Offload
from evenflow_torch.run.engine.packing import Boundary, Packing, boundary_of, packed, unpacked
from evenflow_torch.run.engine.recompute_layers import forward_of, inside_again, is_on_host, kinds_of_cell
from evenflow_torch.run.engine.seeds import seed_of, seeded
from evenflow_torch.run.engine.split_backward import WeightGradients


@dataclass(frozen=True, slots=True, kw_only=True)
class StageParts:
    """One stage of a plan and the parts of the model in it."""

    index: int
    rank: int
    parts: tuple[Part, ...]
    kinds: Mapping[int, str]
    """Recompute kind of the body layers, by position."""
    splits_backward: bool
    """Whether some backward of the stage is split into input and weight gradient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSettings:
    """Settings that all stages of a pipeline have in common; see `evenflow.run.pipeline`."""

    context: Context | None
    seed: int | None
    recompute_modules: Patterns
    device: torch.device
    shared: Sequence[Sequence[str]]
    """Names of parameters that are one and the same, such as tied embeddings."""
    first_microbatch: int = 0
    """Number of this pipeline's first microbatch among those of all replicas."""


def cut(model: ModelRow, plan: Plan, schedule: Schedule) -> tuple[StageParts, ...]:
    """Return all stages of a plan in order: head on the first, ``layers[a:b]`` on each, tail on the last.

    Raises:
        InputError: plan and model have different numbers of layers.
    """
    check_layers(plan, model.num_layers)
    split = set(schedule.stages[schedule.ops == Op.W].tolist())
    places = {
        int(stage): (chunk, rank)
        for chunk, row in enumerate(schedule.stage_table.tolist())
        for rank, stage in enumerate(row)
    }
    stages, first = [], 0
    for index in range(schedule.num_stages):
        chunk, rank = places[index]
        layers = tuple(model.body[first : first + plan.layers[chunk][rank]])
        first += len(layers)
        kinds = kinds_of_cell(plan, chunk, rank)
        head = model.head if index == 0 else ()
        tail = model.tail if index == schedule.num_stages - 1 else ()
        stages.append(
            StageParts(
                index=index,
                rank=rank,
                parts=head + layers + tail,
                kinds={part.position: kind for part, kind in zip(layers, kinds, strict=True)},
                splits_backward=index in split,
            )
        )
    return tuple(stages)


def check_layers(plan: Plan, num_layers: int) -> None:
    """Raise InputError unless the plan has as many layers as the model, none of them for further tokens."""
    if plan.mtp_layers:
        raise InputError(
            value=plan.mtp_layers,
            rule=_("must have no layers of multi-token prediction, which are not trained here"),
            place=_("the plan"),
            remedy=_("plan a configuration with num_nextn_predict_layers 0, or a layer file without them"),
        )
    if plan.num_layers != num_layers:
        raise InputError(
            value=plan.num_layers,
            rule=_("must add up to the {num_layers} layers of the model", num_layers=num_layers),
            place=_("plan, layers"),
            remedy=_("plan for this model, or say which modules are not layers (head_modules, tail_modules)"),
        )


class StageModule(nn.Module):
    """The modules of one stage in a row.

    `step` and `microbatch` say what is being computed; with a seed, the random numbers of every module depend on them
    and on its position in the unsplit model, and on nothing else. Microbatches count on over replicas.

    Modules may hand over several tensors, which cross between stages as one.
    """

    def __init__(
        self,
        stage: StageParts,
        context: Context | None,
        *,
        seed: int | None = None,
        first_microbatch: int = 0,
        recompute_modules: Patterns = RECOMPUTE_PARTS,
        recompute_inside: Callable[[], AbstractContextManager[None]] = nullcontext,
        arriving: Packing | None = None,
    ) -> None:
        """`arriving` says what a microbatch arrives as, until `packings` says it of each."""
        super().__init__()
        self.parts = stage.parts
        self.modules_in_order = nn.ModuleList(part.module for part in stage.parts)
        kinds = [stage.kinds.get(part.position, NONE) for part in stage.parts]
        self.has_moving = any(map(is_on_host, kinds))
        """Whether any of its layers keeps something on the host."""
        self.offload = Offload(keeps_input=not is_on_host(kinds[0] if kinds else NONE))
        self.forwards: list[Callable[..., Any]] = [
            forward_of(part, kind, recompute_modules, recompute_inside, self.offload)
            for part, kind in zip(stage.parts, kinds, strict=True)
        ]
        self.segments = segments_of(kinds)
        self._recompute_inside = recompute_inside
        self.context = context
        self.seed = seed
        self._first_microbatch = first_microbatch
        self.step = 0
        self.microbatch = 0
        self._arriving = arriving
        self.packings: Sequence[Packing | None] = ()
        """How each microbatch of this step arrives."""
        self.batch_inputs: Sequence[Mapping[str, Tensor]] = ()
        """What parts may take of each microbatch by keyword, by name."""

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the output of the stage for one microbatch, in the order in which messages are sent."""
        self.offload.begin(hidden)
        packing = self.packings[self.microbatch] if self.packings else self._arriving
        values = (hidden,) if packing is None else unpacked(hidden, packing)
        for places, is_again in self.segments:
            run: Callable[..., Any] = partial(self._run, places, self.step, self.microbatch)
            if is_again:
                run = under_checkpoint(run, **inside_again(self._recompute_inside))
            values = run(*values)
        return values[0].contiguous() if len(values) == 1 else packed(values)

    def _run(self, places: range, step: int, microbatch: int, *values: Tensor) -> tuple[Tensor, ...]:
        """Return the output of the parts at `places`, which a segment computes twice."""
        for place in places:
            part = self.parts[place]
            hidden, others = self.entering(part, values[0]), values[1:]
            arguments = self.arguments(part, hidden, microbatch)
            with self._random(part, hidden.device, step, microbatch):
                values = tensors_of(self.forwards[place](hidden, *others, **arguments), part)
        return values

    def arguments(self, part: Part, hidden: Tensor, microbatch: int) -> dict[str, Any]:
        """Return what a part takes by keyword: made from its first input, and of the batch."""
        made = dict(self.context(hidden, part)) if self.context else {}
        if self.batch_inputs:
            batch = self.batch_inputs[microbatch]
            made |= {name: batch[name] for name in part.batch_inputs if name in batch}
        return made

    def entering(self, part: Part, hidden: Tensor) -> Tensor:
        """Return the input of a part, from the output of the part before; a place for placements."""
        return hidden

    def _random(self, part: Part, device: torch.device, step: int, microbatch: int) -> Any:
        if self.seed is None or not self.training or device.type == "meta":
            return nullcontext()
        return seeded(seed_of(self.seed, step, self._first_microbatch + microbatch, part.position), device)


def segments_of(kinds: Sequence[str]) -> list[tuple[range, bool]]:
    """Return places of parts that run together, in order, and whether they are computed again together.

    >>> segments_of(["none", "segment2", "segment2", "segment2", "full"])
    [(range(0, 1), False), (range(1, 3), True), (range(3, 4), True), (range(4, 5), False)]
    """
    found: list[tuple[range, bool]] = []
    for kind, group in groupby(range(len(kinds)), key=kinds.__getitem__):
        places = list(group)
        length = segment_length(kind)
        step = len(places) if length is None else length or len(places)
        starts = range(places[0], places[-1] + 1, step)
        found += [(range(start, min(start + step, places[-1] + 1)), length is not None) for start in starts]
    return found


def boundary_shapes(
    stages: Sequence[StageParts],
    context: Context | None,
    example: Tensor,
    batch_inputs: Mapping[str, Tensor] = MappingProxyType({}),
) -> list[Boundary]:
    """Return what goes into the first stage, between stages, and out of the last, of one microbatch.

    Those behind stages of which some parameter is trained, or that of an earlier one, require a gradient. Nothing is
    computed, and nothing in the modules changes.

    Raises:
        InputError: a part that returns no tensor, or cannot run on tensors without values.
    """
    values: tuple[Tensor, ...] = (torch.empty_like(example, device="meta"),)
    boundaries = [Boundary(tensor=values[0])]
    is_trained = False
    for stage in stages:
        for part in stage.parts:
            is_trained = is_trained or any(parameter.requires_grad for parameter in part.module.parameters())
            if not part.keeps_shape:
                named = dict(context(values[0], part)) if context else {}
                named |= {name: batch_inputs[name] for name in part.batch_inputs if name in batch_inputs}
                values = tensors_of(part_output(part, values, named), part)
        boundaries.append(boundary_of(values, is_trained=is_trained))
    last = boundaries[-1]
    if last.packing is not None:
        raise InputError(
            value=len(last.packing.shapes),
            rule=_("must return one tensor at its end"),
            place=_("model, {name}", name=stages[-1].parts[-1].name),
        )
    return boundaries


def tensors_of(output: object, part: Part) -> tuple[Tensor, ...]:
    """Return what a part hands over, one tensor or several; raise InputError for anything else."""
    values = tuple(output) if isinstance(output, tuple | list) else (output,)
    if not values or not all(isinstance(value, Tensor) for value in values):
        raise InputError(
            value=type(output).__name__,
            rule=_("must return a tensor, or a tuple of tensors"),
            place=_("model, {name}", name=part.name),
        )
    return values


def weight_gradients(stage: StageParts) -> WeightGradients | None:
    """Return, for a stage that splits backwards, what keeps the weight gradients that it leaves for later.

    Warns of linear layers whose weight gradients do not wait, which its plan does not know.
    """
    if not stage.splits_backward:
        return None
    gradients = WeightGradients()
    whole = gradients.defer([part.module for part in stage.parts])
    if whole:
        names = [_name_in_stage(stage, place) for place in whole]
        warnings.warn(
            _(
                "stage {stage}: weight gradients of {names} are computed with the input gradients, not later as "
                "planned; these weights are made anew in every forward, have hooks, or belong to other modules too",
                stage=stage.index,
                names=", ".join(names),
            ),
            stacklevel=2,
        )
    return gradients


def _name_in_stage(stage: StageParts, place: tuple[int, str]) -> str:
    position, path = place
    return ".".join(name for name in (stage.parts[position].name, path) if name)
