"""Choosing the degrees of a training for a framework by its name, as `evenflow` has it in its face."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from evenflow import ranges
from evenflow.asking import asked, check_fields, takes
from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.data_sheets import accelerator_named
from evenflow.cluster.topology import Topology
from evenflow.errors import InputError
from evenflow.fields import Fields, check_one_of
from evenflow.language import _
from evenflow.model import Abilities, Empty
from evenflow.predict.chosen_sets import ModuleSets, chosen_sets
from evenflow.predict.host_update import HostUpdate
from evenflow.predict.training import Software, moved_of, set_kind
from evenflow.predict.transformer import Transformer
from evenflow.profiles.transformer.config_file import read_transformer, transformer_of_config
from evenflow.questions import NUM_ROWS, TIME_LIMIT
from evenflow.schedule import FAMILIES
from evenflow.targets.registry import target_named
from evenflow.targets.target import Target
from evenflow.tune.axes import Axis, Value
from evenflow.tune.limits import all_schedules, check_question
from evenflow.tune.preference import simplest_first
from evenflow.tune.question import USUAL_CONFIDENCE, TuningQuestion
from evenflow.tune.search import TuningProgress, search
from evenflow.tune.tuned import Tuned


@dataclass(frozen=True, kw_only=True)
class TuneRequest:
    """What `evenflow.tune` is asked for."""

    model: Transformer | Mapping[str, object] | Path | str = field(kw_only=False)
    accelerator: str | Accelerator = field(kw_only=False)
    devices: int
    devices_per_node: int | None = None
    memory_limit_bytes: int | None = None
    confidence: float = field(default=USUAL_CONFIDENCE, metadata=asked(ranges.CONFIDENCE))
    global_batch: int
    sequence: int
    precision: str = "bf16"
    target: str | None = None
    version: str | None = None
    software: Software | None = None
    schedules: Sequence[str] = ()
    fixed: Mapping[str, Value] | None = None
    most: Mapping[str, int] | None = None
    allow_empty: bool = True
    optimizer_offload: float = 0.0
    host_link_bytes_per_s: int | None = None
    recompute: str | None = None
    recompute_sets: ModuleSets = ()
    rows: int = field(default=10, metadata=NUM_ROWS)
    time_limit_s: float = field(default=60.0, metadata=TIME_LIMIT)
    progress: Callable[[TuningProgress], None] | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def question(self) -> TuningQuestion:
        """Return what is searched for, not yet checked; raises InputError for an unknown name."""
        device = accelerator_named(self.accelerator) if isinstance(self.accelerator, str) else self.accelerator
        question = TuningQuestion(
            model=_transformer(self.model),
            topology=Topology.of(device, self.devices_per_node),
            devices=self.devices,
            global_batch=self.global_batch,
            sequence=self.sequence,
            memory_limit_bytes=device.memory_bytes if self.memory_limit_bytes is None else self.memory_limit_bytes,
            confidence=self.confidence,
            precision=self.precision,
            fixed={_axis(name, "fixed"): value for name, value in (self.fixed or {}).items()},
            most={_axis(name, "most"): value for name, value in (self.most or {}).items()},
            allow_empty=self.allow_empty,
            optimizer_offload=self.optimizer_offload,
            host_update=self._host_update,
            recompute=self.recompute,
        )
        target = None if self.target is None else target_named(self.target, place="target")
        question = for_framework(question, target, self.version, schedules=self.schedules)
        return (question if self.software is None else replace(question, software=self.software)).calibrated

    @property
    def _host_update(self) -> HostUpdate | None:
        link = self.host_link_bytes_per_s
        return None if link is None else HostUpdate(link_bytes_per_s=link)


@takes(TuneRequest)
def tune(request: TuneRequest) -> Tuned:
    """Return the ways to split a training over devices, the shortest step first, with a bound on all of them.

    Of those as good as the fastest, the simplest is the first (`simplest_first`).

    Args:
        model: a transformer, its Hugging Face configuration, or the file of that.
        accelerator: the name of a data sheet, such as ``h100``, or the rates of another device.
        devices: devices in all.
        devices_per_node: devices that fast links connect; None: those of the accelerator.
        memory_limit_bytes: of a device; None: all it has.
        confidence: probability with which every rank of a configuration must fit, from 0.5 on.
        global_batch: sequences of a step.
        sequence: tokens of a sequence.
        precision: of linear layers: bf16, fp16, fp32, fp8, nvfp4.
        target: the name of a framework, such as ``megatron``; None: all that evenflow plans.
        version: of the framework; None: the newest that is known.
        software: what the framework does; None: what is usual.
        schedules: families that are tried; empty: the usual ones, as far as the framework runs them, and for mixtures
            of experts its forwards beside backwards.
        fixed: what is decided, by axis: ``{"tensor": 8}``.
        most: the largest values, by axis.
        allow_empty: whether cells may hold no layer.
        optimizer_offload: part of the optimizer's state that the host may keep and update; configurations are tried
            with it and without.
        host_link_bytes_per_s: of a device to the host's memory, in one direction; None: the host keeps nothing.
        recompute: the one kind that layers may be under beside ``none``, or ``none`` alone; None: all kinds.
        recompute_sets: sets of modules that layers may compute again, each a kind in the place of ``select``, such as
            ``[["layernorm"], ["layernorm", "moe_act"]]``, or ``"best"`` for those that no others beat; empty: none.
        rows: rows of the ranking that are solved exactly.
        time_limit_s: seconds after which the ranking so far is the answer.
        progress: called now and then.

    Raises:
        InputError: an unknown name, or sizes that cannot be.
    """
    question = request.question()
    check_question(question)
    if request.recompute_sets:
        question = with_sets(question, request.recompute_sets, place="recompute_sets", place_of_kind="recompute")
    tuned = search(question, rows=request.rows, time_limit_s=request.time_limit_s, progress=request.progress)
    return simplest_first(tuned)


def for_framework(
    question: TuningQuestion, target: Target | None, version: str | None, *, schedules: Sequence[str] = ()
) -> TuningQuestion:
    """Return the question for what a version of a framework can run, the newest where it is None.

    Tried are `schedules`; where none are named the one that is fixed, else the usual ones that the framework has, and
    its forwards beside backwards for layers that exchange tokens.

    Cells may be empty only where it runs them everywhere, under some of these.
    """
    if target is not None:
        known = target.version(version)
        target.check_offload(question.optimizer_offload, known)
        abilities = target.abilities(known)
        every = all_schedules(question.model)
        paired = [name for name in every if FAMILIES[name].has_pairs and name != abilities.equal_pairs]
        usual = of_target((*question.schedules, *paired), abilities)
        question = replace(
            question,
            abilities=abilities,
            allow_empty=question.allow_empty and abilities.empty is Empty.ANY,
            rules=target.degree_rules(known),
            software=target.software(question.precision),
            title=target.title,
            schedules=usual or of_target(every, abilities),
        )
    fixed = question.fixed.get(Axis.SCHEDULE)
    names = schedules or (() if fixed is None else (str(fixed),))
    question = replace(question, schedules=tuple(names)) if names else question
    fills = all(question.min_layers_of(name) for name in question.schedules)
    return replace(question, allow_empty=False) if fills else question


def of_target(names: Sequence[str], abilities: Abilities) -> tuple[str, ...]:
    """Return those of the schedules that a framework runs: orders of our own one action after the other."""
    return tuple(
        name for name in names if name in abilities.schedules or (abilities.own_order and not FAMILIES[name].has_pairs)
    )


def with_sets(question: TuningQuestion, named: ModuleSets, *, place: str, place_of_kind: str) -> TuningQuestion:
    """Return the question with sets of modules as recompute kinds: the best ones by what layers take on one device.

    `place` and `place_of_kind` name the sets, and the only kind, for messages.

    Raises:
        InputError: as `chosen_sets`; sets beside an only kind, or that move modules to the host.
    """
    if question.recompute is not None:
        rule = _("must not be given beside {other}, which names the only kind", other=place_of_kind)
        raise InputError(value=question.recompute, rule=rule, place=place, remedy=_("leave one of the two out"))
    known = None if question.abilities is None else question.abilities.recompute_kinds
    sets = chosen_sets(named, question.on_one_device, question.topology, known, place=place)
    moving = [set_kind(modules) for modules in sets if moved_of(modules)]
    if moving:
        rule = _("must be computed again: the choice of degrees moves nothing to the host")
        raise InputError(value=", ".join(moving), rule=rule, place=place, remedy=_("plan the degrees with --host-link"))
    return replace(question, recompute_sets=sets)


def _axis(name: str, place: str) -> Axis:
    check_one_of(name, Axis, place=place, suggests=True)
    return Axis(name)


def _transformer(model: Transformer | Mapping[str, object] | Path | str) -> Transformer:
    if isinstance(model, Transformer):
        return model
    if isinstance(model, Mapping):
        return transformer_of_config(Fields(values=dict(model), file="model", path="")).model
    return read_transformer(model).model
