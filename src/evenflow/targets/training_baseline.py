"""What a user runs today, as a training: degrees, batch and plan from their file, the rest from what is asked."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import SELECT, Plan, one_by_one
from evenflow.predict.limits.checks import check_training
from evenflow.predict.training import Degrees, Sharding, Training, moved_of, set_kind, sets_among
from evenflow.targets.baseline_sets import in_offered_kinds
from evenflow.targets.stated_degrees import StatedDegrees
from evenflow.targets.target import GivenSizes, Target
from evenflow.tune.axes import Axis, Value
from evenflow.tune.question import TuningQuestion


@dataclass(frozen=True, kw_only=True)
class TrainingBaseline:
    """The training that a framework's configuration asks for."""

    training: Training
    plan: Plan
    """Its cut, its recomputation and its order."""
    unknown: tuple[str, ...] = ()
    """Keys that decide something of it and are not understood, each with its place."""
    notes: tuple[str, ...] = ()
    """What was taken for what the file does not say; translated."""


def read_training(target: Target, text: str, file: str, question: TuningQuestion) -> TrainingBaseline:
    """Return the training that the text of a framework's configuration asks for, on what `question` asks.

    The model, the devices, the number format and the software are those of the question. What the file does not say of
    degrees and batch is what the user has decided, or usual, and a note says so.

    Raises:
        InputError: a framework whose files do not tell degrees; a file whose training cannot be told, or is another
            than asked: on other devices, of another batch, sequence or number of layers; degrees that cannot be.
    """
    if target.read_degrees is None or target.read is None:
        rule = _("must be of a framework whose files say how a training is split")
        raise InputError(value=target.name, rule=rule, place=file)
    stated = target.read_degrees(text, file)
    taken = _Taken(stated=stated, file=file, question=question)
    degrees, microbatch = taken.degrees(target), taken.microbatch()
    taken.check_batch(degrees.data)
    of_microbatches = degrees.data * microbatch
    if question.global_batch % of_microbatches:
        rule = _("must be a multiple of data x microbatch ({data} x {size})", data=degrees.data, size=microbatch)
        raise InputError(value=question.global_batch, rule=rule, place=stated.place("global_batch", file))
    given = GivenSizes(
        num_layers=question.model.layers,
        num_ranks=degrees.pipeline,
        num_microbatches=question.global_batch // of_microbatches,
        may_be_alone=True,
    )
    found = target.read(text, file, given)
    sets = tuple(
        modules for modules in sets_among(found.plan.used_kinds) if not moved_of(modules)
    )  # moving needs a link
    found = in_offered_kinds(found, (SELECT, *map(set_kind, sets)))
    plan, notes = one_by_one(found.plan), list(found.notes)
    if plan != found.plan:
        notes.append(_("layers that are recomputed together count each by itself"))
    for what, value, asked in (
        (_("number of layers"), plan.num_layers, question.model.layers),
        (_("pipeline ranks"), plan.num_ranks, degrees.pipeline),
        (_("number of microbatches"), plan.num_microbatches, given.num_microbatches),
    ):
        if value != asked:
            rule = _("must be {asked}", asked=asked)
            raise InputError(value=value, rule=rule, place=_("{file}: {what}", file=file, what=what))
    training = replace(taken.training(degrees, microbatch, plan), recompute_sets=((SELECT,), *sets) if sets else ())
    check_training(training, question.topology.accelerator, named=lambda name: stated.place(name, file))
    return TrainingBaseline(
        training=training,
        plan=plan,
        unknown=tuple(dict.fromkeys((*found.unknown, *stated.unknown))),
        notes=(*taken.notes(), *stated.notes, *notes),
    )


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a file states, with what is taken for the rest."""

    stated: StatedDegrees
    file: str
    question: TuningQuestion

    def degrees(self, target: Target) -> Degrees:
        """Return the degrees; raises InputError for those that do not make the devices that are asked for."""
        stated, question = self.stated, self.question
        self._check("devices", stated.devices, question.devices)
        numbers = {axis: self._number(axis) for axis in (Axis.TENSOR, Axis.CONTEXT, Axis.EXPERT, Axis.PIPELINE)}
        of_copy = numbers[Axis.TENSOR] * numbers[Axis.CONTEXT] * numbers[Axis.PIPELINE]
        if question.devices % of_copy:
            rule = _("must divide the {devices} devices", devices=question.devices)
            place = _("{file}: tensor x context x pipeline", file=self.file)
            raise InputError(value=of_copy, rule=rule, place=place)
        data = question.devices // of_copy
        self._check("data", stated.data, data)
        rules = target.degree_rules(target.versions[-1])
        parallel = stated.sequence_parallel
        split = stated.expert_tensor
        return Degrees(
            tensor=numbers[Axis.TENSOR],
            context=numbers[Axis.CONTEXT],
            expert=numbers[Axis.EXPERT],
            expert_tensor=split if split is not None or question.model.experts is None else self._usual_split(),
            pipeline=numbers[Axis.PIPELINE],
            data=data,
            sequence_parallel=rules.sequence_parallel if parallel is None else parallel,
            sharding=self._sharding(),
            context_exchange=stated.context_exchange or rules.context_exchange,
        )

    def microbatch(self) -> int:
        """Return the sequences of a microbatch."""
        return self._number(Axis.MICROBATCH)

    def check_batch(self, data: int) -> None:
        """Raise InputError where the file has another batch or another sequence than asked."""
        stated, question = self.stated, self.question
        whole = stated.global_batch
        if whole is None and stated.rank_batch is not None:
            whole = stated.rank_batch * data
        self._check("global_batch", whole, question.global_batch)
        self._check("sequence", stated.sequence, question.sequence)

    def training(self, degrees: Degrees, microbatch: int, plan: Plan) -> Training:
        """Return the training that runs `plan`."""
        question = self.question
        return Training(
            model=question.model,
            degrees=Degrees(
                **{name: getattr(degrees, name) for name in degrees.__slots__ if name != "chunks"},
                chunks=plan.num_chunks,
            ),
            microbatch=microbatch,
            global_batch=question.global_batch,
            sequence=question.sequence,
            precision=question.precision,
            schedule=plan.schedule,
            layout=plan.layers,
            group_size=plan.group_size,
            software=question.software,
        )

    def notes(self) -> Iterator[str]:
        """Yield what was taken for what the file does not say."""
        for axis in (*_DEFAULTS, Axis.ZERO):
            if axis is Axis.EXPERT and self.question.model.experts is None:
                continue
            if getattr(self.stated, _FIELDS[axis]) is None:
                value = self._sharding().value if axis is Axis.ZERO else self._number(axis)
                yield _("{axis} is taken to be {value}, which the file does not say", axis=axis, value=value)

    def _number(self, axis: Axis) -> int:
        found = getattr(self.stated, _FIELDS[axis])
        return int(self._decided(axis, _DEFAULTS[axis]) if found is None else found)

    def _sharding(self) -> Sharding:
        found = self.stated.sharding
        return Sharding(str(self._decided(Axis.ZERO, 1))) if found is None else found

    def _usual_split(self) -> int | None:
        return 1 if self._number(Axis.EXPERT) > 1 else None

    def _decided(self, axis: Axis, usual: Value) -> Value:
        """Return what the user has decided, or else what is usual."""
        return self.question.fixed.get(axis, usual)

    def _check(self, name: str, found: int | None, asked: int) -> None:
        if found is not None and found != asked:
            raise InputError(
                value=found,
                rule=_("must be {asked}, as asked for", asked=asked),
                place=self.stated.place(name, self.file),
                remedy=_("ask for what the file has, or change the file"),
            )


_DEFAULTS = {Axis.TENSOR: 1, Axis.CONTEXT: 1, Axis.EXPERT: 1, Axis.PIPELINE: 1, Axis.MICROBATCH: 1}
"""What is usual of an axis that neither the file nor the user says."""
_FIELDS = {
    Axis.TENSOR: "tensor", Axis.CONTEXT: "context", Axis.EXPERT: "expert", Axis.PIPELINE: "pipeline",
    Axis.MICROBATCH: "microbatch", Axis.ZERO: "sharding",
}  # fmt: skip
"""The field of `StatedDegrees` of an axis."""
