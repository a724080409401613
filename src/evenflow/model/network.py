"""A network: a head, a sequence of layers of one or several kinds, and a tail."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise, takewhile

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model.encoder_work import EncoderWork
from evenflow.model.halves import Halves
from evenflow.model.host_link import HostLink
from evenflow.model.peak_error import PeakError
from evenflow.model.rank_traits import RankTraits
from evenflow.model.recompute import FULL, NONE, ordered_kinds
from evenflow.model.stage_rules import StageRule
from evenflow.ranges import LAYERS, MEMORY_BYTES, PAIR_SLOWDOWN, STEP_TOTAL, TIME_NS
from evenflow.units import megabytes, milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """The memory and the backward of one layer under one recompute kind."""

    activation_bytes: int
    """Bytes live for one microbatch from the layer's forward to the end of its backward."""
    offloaded_bytes: int = 0
    """Bytes that the host keeps between forward and backward, beside `activation_bytes`, which stay on the device."""
    moved_parts: tuple[int, ...] = ()
    """Those of each module that moves, in the order of the forward, where they are known apart."""
    backward_ns: int
    """Time of the whole backward of one microbatch, recomputation included."""
    working_bytes: int = 0
    """Bytes that a forward or backward needs for itself at its fullest moment, beyond what lives before or after it."""
    mlp_bytes: int = 0
    """Those of `activation_bytes` that the MLP keeps of what it computes, without what was sent to it; 0: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer of the body; times are for one microbatch."""

    name: str
    forward_ns: int
    """Time of the forward."""
    parameter_bytes: int
    """Bytes of weights, gradients and optimizer state."""
    modes: Mapping[str, Mode]
    """Modes by recompute kind; ``none`` is always among them."""
    stated_weight_ns: int | None = None
    """Time of the weight gradient; None: half of the plain backward (see `weight_ns`)."""
    stated_until_weight_bytes: int | None = None
    """Bytes held for the weight gradient; None: all activations (see `until_weight_bytes`)."""
    cut_before: bool = True
    """Whether a stage may begin with this layer; if not, it is in the stage of the layer before it."""
    stage_rules: frozenset[StageRule] = frozenset()
    """Rules for the stage that holds it."""
    is_mtp: bool = False
    """Whether it predicts further tokens (multi-token prediction), which frameworks count apart."""
    is_encoder: bool = False
    """Whether it is of an encoder in front of the decoder, which frameworks have in their first stage, uncounted."""
    continues_block: bool = False
    """Whether it is of the same block as the layer before it, which frameworks of whole blocks count as one layer."""
    boundary_bytes: int | None = None
    """Bytes that a stage which ends with this layer sends on for one microbatch, and gets back as a gradient; None: as
    many as the request says of every message.
    """
    halves: Halves | None = None
    """Its attention, its experts or MLP and the exchanges between them; None: not known apart."""

    @property
    def backward_ns(self) -> int:
        """Time of the backward without recomputation."""
        return self.modes[NONE].backward_ns

    @property
    def weight_ns(self) -> int:
        """Time of the part of the plain backward that computes weight gradients: half of it unless stated."""
        return self.backward_ns // 2 if self.stated_weight_ns is None else self.stated_weight_ns

    @property
    def until_weight_bytes(self) -> int:
        """Bytes live from the end of a split-off input gradient to the end of the weight gradient.

        Recomputation does not change them. Unless stated, they are everything that is kept without recomputation. Of a
        transformer layer's ``34 h + 5 a s`` bytes per token the weight gradient needs ``32 h``. [ZeroBubble,
        arXiv:2401.10241, table 1]
        """
        return (
            self.modes[NONE].activation_bytes
            if self.stated_until_weight_bytes is None
            else self.stated_until_weight_bytes
        )

    def recompute_ns(self, kind: str) -> int:
        """Return the time that recompute kind `kind` adds to the backward."""
        return self.modes[kind].backward_ns - self.backward_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class EndBlock:
    """Parts of the first or last stage beside its body layers (embedding, head, loss), which are never recomputed.

    Times are for one microbatch.
    """

    name: str = ""
    forward_ns: int = 0
    """Time of the forward."""
    backward_ns: int = 0
    """Time of the backward."""
    parameter_bytes: int = 0
    """Bytes of weights, gradients and optimizer state."""
    activation_bytes: int = 0
    """Bytes live for one microbatch from the forward to the end of the backward."""
    working_bytes: int = 0
    """Bytes that a forward or backward needs for itself at its fullest moment, beyond what lives before or after it."""
    stated_weight_ns: int | None = None
    """Time of the weight gradient; None: half of the backward (see `weight_ns`)."""
    stated_until_weight_bytes: int | None = None
    """Bytes held for the weight gradient; None: all activations (see `until_weight_bytes`)."""
    boundary_bytes: int | None = None
    """Of a head, bytes that a first stage without body layers sends on (see `Layer.boundary_bytes`)."""

    @property
    def weight_ns(self) -> int:
        """Time of the part of the backward that computes weight gradients: half of it unless stated."""
        return self.backward_ns // 2 if self.stated_weight_ns is None else self.stated_weight_ns

    @property
    def until_weight_bytes(self) -> int:
        """Bytes live from the end of the input gradient to the end of the weight gradient: all unless stated."""
        return self.activation_bytes if self.stated_until_weight_bytes is None else self.stated_until_weight_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRun:
    """`count` equal layers in a row."""

    layer: Layer
    count: int


@dataclass(frozen=True, kw_only=True)
class Network:
    """A model as evenflow sees it: a head, runs of body layers in order, and a tail."""

    name: str
    runs: tuple[LayerRun, ...]
    head: EndBlock = field(default_factory=EndBlock)
    tail: EndBlock = field(default_factory=EndBlock)
    constant_bytes: int = 0
    """Bytes that every rank holds whatever its layers."""
    has_memory: bool = True
    """Whether the source gave the memory of layers; without it no limit can be checked."""
    peak_error: PeakError | None = None
    """How far peaks may be off, where the memory was fitted to measured ones."""
    ranks: tuple[RankTraits, ...] = ()
    """Speed and memory of every rank; empty: they are all alike."""
    host_link: HostLink | None = None
    """The link of every rank to the host's memory; None: nothing is moved there."""
    segments: Mapping[str, int] = field(default_factory=dict)
    """Length of the segments under each kind that computes layers again in segments; 0: all of a cell (see
    `with_segments`). The modes of these kinds say the least that a layer takes.
    """
    pair_slowdown: float = 1.0
    """How many times as long computation takes while an exchange runs beside it, in a pair of forward and backward."""
    encoder_work: EncoderWork | None = None
    """What encoders in front of it do beside the pipeline, on all ranks; None: there are none, or they are layers."""
    recomputes_before_pairs: bool = False
    """Whether all layers of a backward that runs beside a forward are computed again before both begin, not each when
    its turn comes.
    """
    adapter_rank: int = 0
    """Width of the adapters (LoRA) that are trained alone beside every product of the layers; 0: all is trained."""

    def __post_init__(self) -> None:
        if not self.runs:
            raise InputError(rule=_("must have at least one body layer"), place=self.name)
        for run in self.runs:
            LAYERS.check(
                run.count, place=_("{name}, the number of layers {layer}", name=self.name, layer=run.layer.name)
            )
        LAYERS.check(self.num_layers, place=_("{name}, the number of body layers", name=self.name))
        MEMORY_BYTES.check(self.constant_bytes, place=_("{name}, the constant memory", name=self.name))
        PAIR_SLOWDOWN.check(self.pair_slowdown, place=_("{name}, the slowdown of pairs", name=self.name))
        for run in self.runs:
            self._check(run.layer)
            self._check_weight(run.layer)
        for block in (self.head, self.tail):
            place = f"{self.name}, {block.name or _('head or tail')}"
            sizes = (block.parameter_bytes, block.activation_bytes, block.working_bytes, block.boundary_bytes or 0)
            self._check_size(block.forward_ns, block.backward_ns, sizes, place=place)
            self._check_weight(block)
        if self.tail.boundary_bytes is not None:
            raise InputError(
                value=self.tail.boundary_bytes,
                rule=_("must be of the head or a layer: nothing comes behind the tail"),
                place=_("{place}, what it sends on", place=f"{self.name}, {self.tail.name or _('head or tail')}"),
            )
        if any(first.layer.is_mtp and not then.layer.is_mtp for first, then in pairwise(self.runs)):
            rule = _("must have the layers of multi-token prediction behind all others")
            raise InputError(rule=rule, place=self.name)
        if self.mtp_layers == self.num_layers:
            rule = _("must have a layer besides those of multi-token prediction")
            raise InputError(rule=rule, place=self.name)
        if any(then.layer.is_encoder and not first.layer.is_encoder for first, then in pairwise(self.runs)):
            raise InputError(rule=_("must have the layers of the encoder before all others"), place=self.name)
        if self.encoder_layers + self.mtp_layers == self.num_layers and self.encoder_layers:
            raise InputError(rule=_("must have a layer besides those of the encoder"), place=self.name)
        if self.runs[0].layer.continues_block:
            raise InputError(rule=_("must begin with a layer that continues no block"), place=self.name)
        self._check_alone()
        if not any(run.layer.forward_ns + run.layer.backward_ns for run in self.runs):
            raise InputError(rule=_("must have body layers that take some time"), place=self.name)

    def _check_alone(self) -> None:
        """Check that layers which stay together are alone in their stage together, or none of them is."""
        for first, then in pairwise(run.layer for run in self.runs):
            if then.cut_before or (StageRule.ALONE in first.stage_rules) == (StageRule.ALONE in then.stage_rules):
                continue
            alone, mate = (first, then) if StageRule.ALONE in first.stage_rules else (then, first)
            raise InputError(
                value=[str(rule) for rule in sorted(alone.stage_rules)],
                rule=_(
                    "must not have 'alone': a stage may not begin with {then}, so {alone} and {mate} are in one stage",
                    then=then.name,
                    alone=alone.name,
                    mate=mate.name,
                ),
                place=_("{name}, rules of layer {layer}", name=self.name, layer=alone.name),
                remedy=_("give both the rule, or let a stage begin with {then}", then=then.name),
            )

    def _check(self, layer: Layer) -> None:
        place = f"{self.name}, layer {layer.name}"
        if NONE not in layer.modes:
            raise InputError(value=sorted(layer.modes), rule=_("must have the recompute kind 'none'"), place=place)
        MEMORY_BYTES.check(layer.boundary_bytes or 0, place=_("{place}, what it sends on", place=place))
        self._check_halves(layer, place=place)
        for kind, mode in layer.modes.items():
            self._check_size(
                layer.forward_ns,
                mode.backward_ns,
                (layer.parameter_bytes, mode.activation_bytes, mode.working_bytes, mode.offloaded_bytes),
                place=_("{place}, kind {kind}", place=place, kind=kind),
            )
            if not 0 <= mode.mlp_bytes <= mode.activation_bytes:
                raise InputError(
                    value=mode.mlp_bytes,
                    rule=_("must be a part of the {size} bytes that the layer keeps", size=mode.activation_bytes),
                    place=_("{place}, kind {kind}, what the MLP keeps", place=place, kind=kind),
                )
            if mode.offloaded_bytes and (kind == NONE or self.host_link is None):
                alone = _("must not move anything to the host: it keeps everything")
                unlinked = _("must come with a link to the host, over which it moves what it does not keep")
                raise InputError(
                    value=mode.offloaded_bytes,
                    rule=alone if kind == NONE else unlinked,
                    place=_("{place}, kind {kind}", place=place, kind=kind),
                )
            if mode.backward_ns < layer.backward_ns:
                raise InputError(
                    value=mode.backward_ns,
                    rule=_(
                        "must have a backward of at least {backward_ns} ns, which is the plain one",
                        backward_ns=layer.backward_ns,
                    ),
                    place=_("{place}, kind {kind}", place=place, kind=kind),
                    remedy=_("give the whole backward, recomputation included"),
                )

    def _check_halves(self, layer: Layer, *, place: str) -> None:
        """Raise InputError for halves that take longer than the whole."""
        if layer.halves is None:
            return
        for name, half, whole_ns in (
            (_("forward"), layer.halves.forward, layer.forward_ns),
            (_("backward"), layer.halves.backward, layer.backward_ns),
        ):
            if half.total_ns > whole_ns:
                raise InputError(
                    value=half.total_ns,
                    rule=_("must have halves of at most the {whole_ns} ns of all of it", whole_ns=whole_ns),
                    place=f"{place}, {name}",
                    remedy=_("the exchanges and the MLP are parts of the layer's time; the rest of it is attention"),
                )

    def _check_size(self, forward_ns: int, backward_ns: int, sizes: Sequence[int], *, place: str) -> None:
        """Raise InputError for times or memory outside of their ranges."""
        TIME_NS.check(forward_ns, place=_("{place}, forward", place=place))
        TIME_NS.check(backward_ns, place=_("{place}, backward", place=place))
        for size in sizes:
            MEMORY_BYTES.check(size, place=_("{place}, memory", place=place))

    def check_step(self, num_units: int, *, messages_ns: int = 0) -> None:
        """Raise InputError where `num_units` microbatches (parts) are more work or memory than 64 bits can add up.

        `messages_ns` is the time of all messages of the step, one after the other.
        """
        every_ns = [run.count * (run.layer.forward_ns + _longest(run.layer)) for run in self.runs]
        ends_ns = [block.forward_ns + block.backward_ns for block in (self.head, self.tail)]
        place = _("{name}, {num_units:,} microbatches one after the other", name=self.name, num_units=num_units)
        work_ns = round((sum(every_ns) + sum(ends_ns)) * num_units / self.speeds[-1]) + messages_ns
        if work_ns not in STEP_TOTAL:
            rule = _("must take at most {most:.3g} ms", most=milliseconds(int(STEP_TOTAL.most)))
            raise InputError(value=milliseconds(work_ns), rule=rule, place=place, remedy=_("check the units"))
        parts: list[tuple[int, Layer | EndBlock]] = [(run.count, run.layer) for run in self.runs]
        parts += [(1, self.head), (1, self.tail)]
        held = sum(count * (_largest(part) * num_units + part.parameter_bytes) for count, part in parts)
        if held not in STEP_TOTAL:
            rule = _("must keep at most {most:.3g} MB", most=megabytes(int(STEP_TOTAL.most)))
            raise InputError(value=megabytes(held), rule=rule, place=place, remedy=_("check the units"))

    def _check_weight(self, part: "Layer | EndBlock") -> None:
        """Raise InputError unless the weight gradient is a part of the plain backward."""
        if not 0 <= part.weight_ns <= part.backward_ns or part.until_weight_bytes not in MEMORY_BYTES:
            raise InputError(
                value=f"{part.weight_ns} ns, {part.until_weight_bytes} bytes",
                rule=_(
                    "must have a weight gradient that is a part of the plain backward of {backward_ns} ns, "
                    "with a memory that is not negative",
                    backward_ns=part.backward_ns,
                ),
                place=f"{self.name}, {part.name or _('head or tail')}",
            )

    @property
    def num_layers(self) -> int:
        """Number of body layers."""
        return sum(run.count for run in self.runs)

    @property
    def mtp_layers(self) -> int:
        """Number of body layers that predict further tokens, which are the last ones."""
        return sum(run.count for run in self.runs if run.layer.is_mtp)

    @property
    def encoder_layers(self) -> int:
        """Number of body layers that are of an encoder in front of the decoder, which are the first ones."""
        return sum(run.count for run in self.runs if run.layer.is_encoder)

    @property
    def encodes_apart(self) -> bool:
        """Whether encoders run on all ranks beside the pipeline."""
        return self.encoder_work is not None

    @property
    def continuing_layers(self) -> int:
        """Number of body layers that continue the block of the layer before them."""
        return sum(run.count for run in self.runs if run.layer.continues_block)

    @property
    def frozen_layers(self) -> int:
        """Number of body layers that have no backward since they are not trained, which are the first ones."""
        return sum(1 for _layer in takewhile(lambda layer: not layer.backward_ns, self.layers))

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The body layers one by one, in order."""
        return tuple(run.layer for run in self.runs for _ in range(run.count))

    @cached_property
    def boundaries(self) -> tuple[int | None, ...] | None:
        """Bytes sent on where a stage ends behind the head and behind each body layer, [1 + num_layers].

        None where they are not known for any; a single one is None where it is not.
        """
        sizes = (self.head.boundary_bytes, *(layer.boundary_bytes for layer in self.layers))
        return None if all(size is None for size in sizes) else sizes

    def speed_of(self, rank: int) -> float:
        """Return the speed of a rank; 1 where ranks do not differ."""
        return self.ranks[rank].speed if self.ranks else 1.0

    def copy_ns_per_byte(self, rank: int) -> float:
        """Return the time of a byte on its way to the host, or to the keeper of the rank, or back; 0 without a link."""
        if self.host_link is None:
            return 0.0
        return self.host_link.ns_per_byte(rank, self.ranks[rank].host_sharers if self.ranks else None)

    @property
    def longest_link_ns(self) -> int:
        """The most that a message takes longer on any link than on the others."""
        return max((rank.link_ns for rank in self.ranks), default=0)

    @cached_property
    def speeds(self) -> tuple[float, ...]:
        """Speeds that ranks have, the fastest first."""
        return tuple(sorted({rank.speed for rank in self.ranks}, reverse=True)) or (1.0,)

    def at_speed(self, speed: float) -> "Network":
        """Return the network with the times of a rank of this speed; they are rounded, and none gets shorter."""
        if speed == 1:
            return self

        def slower(time_ns: int) -> int:
            return round(time_ns / speed)

        def stated(time_ns: int | None) -> int | None:
            return None if time_ns is None else slower(time_ns)

        def slower_layer(layer: Layer) -> Layer:
            modes = {kind: replace(mode, backward_ns=slower(mode.backward_ns)) for kind, mode in layer.modes.items()}
            return replace(
                layer,
                forward_ns=slower(layer.forward_ns),
                modes=modes,
                stated_weight_ns=stated(layer.stated_weight_ns),
                halves=layer.halves and layer.halves.divided(speed),
            )

        def slower_block(block: EndBlock) -> EndBlock:
            return replace(
                block,
                forward_ns=slower(block.forward_ns),
                backward_ns=slower(block.backward_ns),
                stated_weight_ns=stated(block.stated_weight_ns),
            )

        runs = tuple(replace(run, layer=slower_layer(run.layer)) for run in self.runs)
        return replace(self, runs=runs, head=slower_block(self.head), tail=slower_block(self.tail))

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Recompute kinds that every layer offers, in cell order, ``none`` last."""
        shared = set.intersection(*(set(run.layer.modes) for run in self.runs))
        return ordered_kinds(shared)

    @cached_property
    def offloads(self) -> bool:
        """Whether any recompute kind that layers share moves activations to the host."""
        return any(run.layer.modes[kind].offloaded_bytes for run in self.runs for kind in self.kinds)

    @property
    def exchanges_tokens(self) -> bool:
        """Whether any layer is known to exchange tokens between experts, which may run beside computation."""
        known = [run.layer.halves for run in self.runs if run.layer.halves is not None]
        return any(halves.forward.exchange_ns or halves.backward.exchange_ns for halves in known)

    @property
    def delays_weights(self) -> bool:
        """Whether any layer tells which part of its backward need not be done before tokens go back."""
        return any(run.layer.halves is not None and run.layer.halves.backward.mlp_weight_ns for run in self.runs)

    def without_delays(self) -> "Network":
        """Return the network where no weight gradients of experts come behind what an exchange waits for."""
        return self._with_halves(Halves.undelayed) if self.delays_weights else self

    def releasing_attention(self) -> "Network":
        """Return the network where attention goes backward as early as it can beside a forward."""
        return self._with_halves(Halves.releasing)

    @property
    def releases_attention(self) -> bool:
        """Whether attention goes backward as early as it can beside a forward."""
        return any(run.layer.halves is not None and run.layer.halves.releases for run in self.runs)

    def _with_halves(self, change: Callable[[Halves], Halves]) -> "Network":
        """Return the network with other halves."""
        runs = (
            replace(run, layer=replace(run.layer, halves=run.layer.halves and change(run.layer.halves)))
            for run in self.runs
        )
        return replace(self, runs=tuple(runs))

    @property
    def used_host_link(self) -> HostLink | None:
        """The link to the host's memory; None where no kind moves anything there."""
        return self.host_link if self.offloads else None

    @property
    def keeps_for_others(self) -> bool:
        """Whether ranks keep what others move."""
        link = self.used_host_link
        return link is not None and any(keeper is not None for keeper in link.keepers)

    def without_keepers(self) -> "Network":
        """Return the network where the host keeps all that ranks move."""
        if not self.keeps_for_others or self.host_link is None:
            return self
        return replace(self, host_link=replace(self.host_link, keepers=(), keeper_bytes_per_s=None))

    @property
    def is_uniform(self) -> bool:
        """Whether all body layers cost the same (their names apart) and may be anywhere."""
        first = self.runs[0].layer
        same = all(replace(run.layer, name=first.name) == first for run in self.runs)
        return same and self.is_free

    @cached_property
    def is_free(self) -> bool:
        """Whether stages may begin anywhere and hold any layers."""
        return self.cuts_anywhere and not any(run.layer.stage_rules for run in self.runs)

    @property
    def cuts_anywhere(self) -> bool:
        """Whether a stage may begin with every layer but the first, of which that goes without saying."""
        first, *others = self.runs
        return (first.layer.cut_before or first.count == 1) and all(run.layer.cut_before for run in others)

    def split_sequence(self, sequence_splits: int) -> "Network":
        """Return the network of one of `sequence_splits` equal parts of a sequence, the unit of Seq1F1B schedules.

        Times, activations and working memory are divided (memory rounded up). A layer's keys and values are part of its
        activation and stay until the backward of its own part, which comes after that of all later parts; `full`
        recompute would drop them, so it is not offered. [Seq1F1B, arXiv:2406.03488, §3]
        """
        if sequence_splits == 1:
            return self

        def split_time(time_ns: int | None) -> int | None:
            return None if time_ns is None else _divided(time_ns, sequence_splits)

        def split_memory(size_bytes: int | None) -> int | None:
            return None if size_bytes is None else -(-size_bytes // sequence_splits)

        def split_layer(layer: Layer) -> Layer:
            modes = {
                kind: Mode(
                    activation_bytes=-(-mode.activation_bytes // sequence_splits),
                    backward_ns=_divided(mode.backward_ns, sequence_splits),
                    offloaded_bytes=-(-mode.offloaded_bytes // sequence_splits),
                    working_bytes=-(-mode.working_bytes // sequence_splits),
                    mlp_bytes=mode.mlp_bytes // sequence_splits,
                )
                for kind, mode in layer.modes.items()
                if kind != FULL and kind not in self.segments
            }
            return replace(
                layer,
                forward_ns=_divided(layer.forward_ns, sequence_splits),
                modes=modes,
                stated_weight_ns=split_time(layer.stated_weight_ns),
                stated_until_weight_bytes=split_memory(layer.stated_until_weight_bytes),
                boundary_bytes=split_memory(layer.boundary_bytes),
                halves=layer.halves and layer.halves.divided(sequence_splits),
            )

        def split_block(block: EndBlock) -> EndBlock:
            return replace(
                block,
                forward_ns=_divided(block.forward_ns, sequence_splits),
                backward_ns=_divided(block.backward_ns, sequence_splits),
                activation_bytes=-(-block.activation_bytes // sequence_splits),
                working_bytes=-(-block.working_bytes // sequence_splits),
                stated_weight_ns=split_time(block.stated_weight_ns),
                stated_until_weight_bytes=split_memory(block.stated_until_weight_bytes),
                boundary_bytes=split_memory(block.boundary_bytes),
            )

        runs = tuple(LayerRun(layer=split_layer(run.layer), count=run.count) for run in self.runs)
        return replace(self, runs=runs, head=split_block(self.head), tail=split_block(self.tail), segments={})

    def without_rules(self) -> "Network":
        """Return the network whose stages may begin anywhere and hold any layers."""
        runs = tuple(
            replace(run, layer=replace(run.layer, cut_before=True, stage_rules=frozenset())) for run in self.runs
        )
        return replace(self, runs=runs)

    def without_mtp(self) -> "Network":
        """Return the network without its layers of multi-token prediction."""
        return replace(self, runs=tuple(run for run in self.runs if not run.layer.is_mtp)) if self.mtp_layers else self

    def without_backward(self) -> "Network":
        """Return the network of a step that only runs forward: backwards take no time, and nothing is recomputed."""

        def strip(layer: Layer) -> Layer:
            plain = replace(layer.modes[NONE], backward_ns=0)
            return replace(layer, modes={NONE: plain}, stated_weight_ns=0, halves=None)

        runs = tuple(replace(run, layer=strip(run.layer)) for run in self.runs)
        head, tail = (replace(block, backward_ns=0, stated_weight_ns=0) for block in (self.head, self.tail))
        return replace(self, runs=runs, head=head, tail=tail, segments={})


def _longest(layer: Layer) -> int:
    return max(mode.backward_ns for mode in layer.modes.values())


def _largest(part: Layer | EndBlock) -> int:
    """Return the most bytes that a part keeps of one microbatch."""
    if isinstance(part, EndBlock):
        return part.activation_bytes + part.until_weight_bytes
    return max(mode.activation_bytes + mode.offloaded_bytes for mode in part.modes.values()) + part.until_weight_bytes


def _divided(time_ns: int, parts: int) -> int:
    """Return the time of one of equal `parts`, rounded, but never to zero unless the whole time is zero."""
    return max(1, round(time_ns / parts)) if time_ns else 0
