"""The abilities of a framework: which schedules, cuts and recomputation it can run, as data for the planner."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model.blocks import whole_blocks_of
from evenflow.model.cell_rule import CellRule
from evenflow.model.network import Layer, Network
from evenflow.model.plan import Cells, Plan, cells
from evenflow.model.recompute import FULL, NONE
from evenflow.model.sizes import Sizes
from evenflow.model.stage_rules import StageRule


class Scope(Enum):
    """How finely a framework can choose what is recomputed."""

    LAYERS = "layers"
    """So many layers of every cell under each kind."""
    CELL = "cell"
    """One kind for all layers of a cell."""
    COUNT = "count"
    """One number for the whole model: so many first layers of every cell are under `full`."""
    MODEL = "model"
    """One kind for all layers of the model."""
    FIRST_CHUNK = "first chunk"
    """One kind for all layers of the first chunks that are not under `full`, and for no others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputation:
    """One way in which a framework recomputes; a plan uses one of its ways, for all cells."""

    scope: Scope
    kinds: tuple[str, ...] = (FULL,)
    """Kinds that layers may be under, beside `none`; with `Scope.COUNT` only `full`. Segments only in cells that hold a
    multiple of their length: what is left would be a segment beyond the end of the cell. [Megatron-LM]
    """
    apart: tuple[tuple[str, str], ...] = ()
    """Pairs of kinds that may not share a cell, with `Scope.LAYERS`."""
    chain: Callable[[str], tuple[str, ...]] = lambda kind: ()
    """Returns the kinds of which every cell may hold a share, with `Scope.MODEL`, from one that moves nothing to the
    host to `kind` itself (see `MovedGroups`); none where all layers of the model are under `kind`.
    """

    def rule(self) -> CellRule:
        """Return the rule that every cell keeps, for the scopes of which one rule says all."""
        kinds = (*self.kinds, NONE)
        if self.scope is Scope.LAYERS:
            return CellRule(kinds=kinds, apart=self.apart)
        return CellRule(kinds=kinds, alike=True)


class Groups(Enum):
    """The sizes of microbatch groups that a framework can run in an interleaved schedule."""

    USUAL = "usual"
    """As many as ranks, whatever remains."""
    MULTIPLE = "multiple"
    """As many as ranks, of which the number of microbatches is a multiple."""
    MEGATRON = "megatron"
    """N from the number of ranks p to that of microbatches m, with m mod N zero or at least p. [Megatron-LM]"""
    ANY = "any"


class Empty(Enum):
    """The cells that may hold no layer."""

    NONE = "none"
    ENDS = "ends"
    """The first and the last stage."""
    ANY = "any"


class Mtp(Enum):
    """The stage of layers that predict further tokens, all in one."""

    LAST_STAGE = "last_stage"
    """The last one, beside the loss; the framework does not count them."""
    LAST_CHUNK = "last_chunk"
    """One in the last chunk of its rank. [Megatron-LM, `PipelineParallelLayerLayout`]"""
    NONE = "none"
    """There is none: the framework does not train them beside a pipeline."""

    @property
    def rule(self) -> StageRule:
        """The rule for the stage of such a layer."""
        return StageRule.LAST_STAGE if self is Mtp.LAST_STAGE else StageRule.LAST_CHUNK


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeRule:
    """A rule for ranks, chunks and microbatches."""

    text: str | Callable[[Sizes], str]
    """What must hold, as the rule of an `InputError`: ``must be at least ...``; a translated sentence, or a function
    that makes one for sizes.
    """
    holds: Callable[[Sizes, str], bool]
    """Whether it holds for these sizes under the schedule family of this name."""
    place: Literal["ranks", "chunks", "microbatches", "sequence_splits", "schedule"] = "microbatches"
    """What breaks it."""

    def rule(self, sizes: Sizes) -> str:
        """Return the sentence for these sizes."""
        return self.text if isinstance(self.text, str) else self.text(sizes)

    def value(self, sizes: Sizes, schedule: str) -> int | str:
        """Return the value that breaks this rule."""
        values: dict[str, int | str] = {
            "ranks": sizes.num_ranks,
            "chunks": sizes.num_chunks,
            "microbatches": sizes.num_microbatches,
            "sequence_splits": sizes.sequence_splits,
            "schedule": schedule,
        }
        return values[self.place]


OwnCut = Callable[[int, Sizes], Cells | None]
"""Returns the layers of all cells for a number of layers and the sizes; None where there is no such cut."""


def even_cut(num_layers: int, sizes: Sizes) -> Cells | None:
    """Return equally many layers for all cells; None where they do not divide.

    >>> even_cut(8, Sizes(num_ranks=2, num_chunks=2, num_microbatches=2))
    ((2, 2), (2, 2))
    """
    per_cell, rest = divmod(num_layers, sizes.num_cells)
    return None if rest else cells([[per_cell] * sizes.num_ranks] * sizes.num_chunks)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleLimits:
    """What a framework keeps to under one of its schedules alone."""

    kinds: tuple[str, ...]
    """Recompute kinds that layers may be under, beside `none`."""
    most_mtp: int
    """Most layers that predict further tokens."""
    every_cell: bool = False
    """Whether every cell holds a layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """The schedules, cuts and recomputation that a framework can run."""

    schedules: tuple[str, ...]
    """Schedule families that it runs in the same order."""
    own_order: bool = False
    """Whether it runs any order of work, as of a search."""
    of_order: Callable[[Plan], "Abilities | None"] | None = None
    """Returns what it can run in an order of the plan's own that it has by name; None for another order."""
    recomputation: tuple[Recomputation, ...]
    """The ways in which it recomputes; no recomputation at all is always possible."""
    most_chunks: int | None = None
    """Most chunks per rank; None: any number."""
    empty: Empty = Empty.NONE
    mtp: Mtp = Mtp.LAST_STAGE
    keeps_mtp: bool = False
    """Whether full recomputation leaves out layers of multi-token prediction."""
    parts_blocks: bool = False
    """Whether a stage may begin inside a block, between attention and MLP, which it counts as layers of their own."""
    whole_layers: bool = False
    """Whether all layers of the models that it builds have both attention and an MLP, or what stands in their place."""
    delays_weights: bool = False
    """Whether weight gradients of experts may come behind what an exchange waits for, beside forwards."""
    recomputes_before_pairs: bool = False
    """Whether all that a backward computes again is computed before it begins beside a forward."""
    releases_attention: bool = False
    """Whether attention may go backward before the MLP beside it goes forward."""
    equal_pairs: str | None = None
    """A further schedule, with pairs, for which all chunks of a rank must hold equally many layers with experts."""
    own_cut: OwnCut | None = None
    """The cut that it makes by itself; None: it makes any."""
    own_cut_from: int = 1
    """The number of chunks from which it cuts by itself."""
    groups: Groups = Groups.USUAL
    splits_sequences: bool = False
    sizes: tuple[SizeRule, ...] = ()
    most_mtp: int | None = None
    """Most layers that predict further tokens; None: any number."""
    limits: Mapping[str, ScheduleLimits] = field(default_factory=dict)
    """What else it keeps to, by schedule family."""

    @property
    def with_equal_pairs(self) -> "Abilities":
        """The same with all schedule families that it runs, also under a rule of their own for cuts."""
        if self.equal_pairs is None:
            return self
        return replace(self, schedules=(*self.schedules, self.equal_pairs))

    @property
    def recompute_kinds(self) -> frozenset[str]:
        """The recompute kinds that layers may be under in any of its ways, beside `none`."""
        return frozenset(kind for way in self.recomputation for kind in way.kinds)

    def under(self, schedule: str) -> "Abilities":
        """Return what the framework can run under the family `schedule`."""
        limits = self.limits.get(schedule)
        if limits is None:
            return self
        ways = (
            replace(way, kinds=tuple(kind for kind in way.kinds if kind in limits.kinds)) for way in self.recomputation
        )
        return replace(
            self,
            recomputation=tuple(way for way in ways if way.kinds),
            most_mtp=limits.most_mtp,
            empty=Empty.NONE if limits.every_cell else self.empty,
        )

    def decides_cut(self, num_chunks: int) -> bool:
        """Return whether the framework cuts a model into so many chunks for each rank by itself."""
        return self.own_cut is not None and num_chunks >= self.own_cut_from

    def as_run(self, network: Network, *, title: str) -> Network:
        """Return `network` as the framework named `title` runs it: in its layers, with its rules for some of them.

        Raises:
            InputError: an encoder as layers, which no framework cuts over stages, or layers of multi-token
                prediction for one that does not train them beside a pipeline, or ranks that keep activations of others.
        """
        check_no_keepers(network, title=title)
        for error in self.layer_refusals(
            network.encoder_layers, network.mtp_layers, title=title, encodes_apart=network.encodes_apart
        ):
            raise error
        blocks = None if self.parts_blocks else whole_blocks_of(network)
        network = network if blocks is None else blocks.network
        network = network if self.delays_weights else network.without_delays()
        if self.recomputes_before_pairs:
            network = replace(network, recomputes_before_pairs=True)
        if not network.mtp_layers:
            return network

        def own(layer: Layer) -> Layer:
            if not layer.is_mtp:
                return layer
            modes = dict(layer.modes)
            if self.keeps_mtp and FULL in modes:
                modes[FULL] = modes[NONE]
            return replace(layer, modes=modes, stage_rules=layer.stage_rules | {self.mtp.rule})

        runs = tuple(replace(run, layer=own(run.layer)) for run in network.runs)
        return replace(network, runs=runs)

    def layer_refusals(
        self, encoder_layers: int, mtp_layers: int, *, title: str, encodes_apart: bool = False
    ) -> Iterator[InputError]:
        """Yield why a plan for the framework named `title` cannot have such layers, or encoders beside it."""
        if encodes_apart:
            yield InputError(
                rule=_("must not be there for {title}, which has encoders in its first stage", title=title),
                place="encoder_work",
                remedy=_("plan with --encoder first"),
            )
        if encoder_layers:
            yield InputError(
                value=encoder_layers,
                rule=_("must be 0 for {title}, which has encoders in its first stage", title=title),
                place="encoder_layers",
                remedy=_("plan with --encoder first"),
            )
        if mtp_layers and self.mtp is Mtp.NONE:
            yield InputError(
                value=mtp_layers,
                rule=_("must be 0 for {title}, which trains no multi-token prediction in a pipeline", title=title),
                place="mtp_layers",
                remedy=_("plan without these layers: with num_nextn_predict_layers 0 in the configuration"),
            )
        if self.most_mtp is not None and mtp_layers > self.most_mtp:
            yield InputError(
                value=mtp_layers,
                rule=_("must be at most {most} for {title} under this schedule", most=self.most_mtp, title=title),
                place="mtp_layers",
                remedy=_("take another schedule"),
            )

    def refusals(self, sizes: Sizes, schedule: str, *, title: str) -> Iterator[InputError]:
        """Yield the reasons why these sizes cannot be run under the family `schedule`; `title` names the framework."""
        if schedule not in self.schedules and not self.own_order:
            yield InputError(
                value=schedule,
                rule=_("must be one of {names} for {title}", names=", ".join(self.schedules), title=title),
                place="schedule",
                remedy=_("plan for it with --target, or write the plan for another framework"),
            )
        if self.most_chunks is not None and sizes.num_chunks > self.most_chunks:
            rule = _("must be at most {most} for {title}", most=self.most_chunks, title=title)
            yield InputError(value=sizes.num_chunks, rule=rule, place="chunks")
        if sizes.sequence_splits > 1 and not self.splits_sequences:
            rule = _("must be 1 for {title}, which does not split sequences", title=title)
            yield InputError(value=sizes.sequence_splits, rule=rule, place="sequence_splits")
        for size_rule in self.sizes:
            if not size_rule.holds(sizes, schedule):
                rule = _("{rule} for {title}", rule=size_rule.rule(sizes), title=title)
                yield InputError(value=size_rule.value(sizes, schedule), rule=rule, place=size_rule.place)


def check_no_keepers(network: Network, *, title: str) -> None:
    """Raise InputError where ranks of `network` keep activations of others, which the framework `title` cannot do."""
    if network.keeps_for_others:
        raise InputError(
            rule=_("must not wait on other ranks in {title}, which cannot do that", title=title),
            place=_("activations"),
            remedy=_("plan without --offload-to"),
        )
