"""The profile of a model that never ran: every distinct part is profiled once, equal neighbours become one run."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

import torch
from torch import nn

from evenflow.asking import takes
from evenflow.cluster import parse_dtype
from evenflow.errors import InputError
from evenflow.fields import Fields, as_fields
from evenflow.language import _
from evenflow.model import NONE, EndBlock, Layer, LayerRun, Mode, Network
from evenflow.model.kept_per_parameter import check_optimizer
from evenflow.predict.chosen_sets import ModuleSets
from evenflow.profiles.accelerator_file import accelerator_given
from evenflow_torch.models.checkpointing import offered_kinds
from evenflow_torch.models.equal_parts import kinds_of
from evenflow_torch.models.experts.shared_out import has_experts
from evenflow_torch.models.parts import ModelRow, Part
from evenflow_torch.models.rows import row_with_inputs
from evenflow_torch.models.training_row import read_decoder
from evenflow_torch.profile.further_tokens import (
    further_block,
    further_blocks,
    joining_part,
    predicted_tokens,
    with_losses,
)
from evenflow_torch.profile.known_halves import with_halves_of_mlps, without_halves
from evenflow_torch.profile.module_sets import KindsOfLayer, with_module_sets
from evenflow_torch.profile.part_profile import PartProfile, profile_part
from evenflow_torch.profile.predicted_parts import (
    PredictedParts,
    further_with_predicted,
    is_same_layer,
    predicted_parts,
    with_predicted,
)
from evenflow_torch.profile.timers import Timer, timer
from evenflow_torch.requests import FAKE, FUSED, ProfileRequest


def _silent(_step: str) -> None:
    """Show no progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """The profiles of a model's parts, in order."""

    name: str
    head: PartProfile | None
    layers: tuple[PartProfile, ...]
    tail: PartProfile | None
    further: tuple[PartProfile, ...] = ()
    """Blocks that predict further tokens, whose losses are in the tail."""
    tables: PredictedParts | None = None
    """What the tables say of the parts, where the profile has it."""
    constant_bytes: int | None = None
    """Bytes that every rank holds; None: the message that comes and the one that goes."""
    notes: tuple[str, ...] = ()
    """Where the times come from, and what else a user should know, a sentence each."""
    unknown_halves: tuple[str, ...] = ()
    """Of these, those that say of which layers the halves are not known, and why."""

    @property
    def runs(self) -> list[tuple[PartProfile, int]]:
        """Equal layers in a row, under the name of the first, and how many they are."""
        return _runs(self.layers)

    @property
    def parts(self) -> list[tuple[str, PartProfile, int]]:
        """Head, distinct layers in order, and tail: type in a layer file, profile, and how many of them in a row."""
        head = [] if self.head is None else [("HEAD", self.head, 1)]
        tail = [] if self.tail is None else [("TAIL", self.tail, 1)]
        layers = [*self.runs, *_runs(self.further)]
        return [*head, *(("BODY", layer, count) for layer, count in layers), *tail]

    def under(self, kinds: Sequence[str]) -> "ModelProfile":
        """Return the profile with these recompute kinds of its layers alone."""
        layers, further = ([layer.under(kinds) for layer in every] for every in (self.layers, self.further))
        return replace(self, layers=tuple(layers), further=tuple(further))

    def network(self) -> Network:
        """Return the network to plan for."""
        messages = max(part.message_bytes for _, part, _ in self.parts)
        return Network(
            name=self.name,
            runs=(
                *(LayerRun(layer=_layer(layer), count=count) for layer, count in self.runs),
                *(LayerRun(layer=layer, count=1) for layer in _further_layers(self.further)),
            ),
            head=_end_block(self.head),
            tail=_end_block(self.tail),
            constant_bytes=messages if self.constant_bytes is None else self.constant_bytes,
        )


def profile(
    layers: Sequence[nn.Module],
    example_input: torch.Tensor,
    *,
    head: nn.Module | None = None,
    tail: nn.Module | None = None,
    name: str = "model",
    device: str = FAKE,
    accelerator: str | None = None,
    efficiency: float | None = None,
    optimizer: str = "adam",
    recompute_sets: ModuleSets | None = None,
) -> Network:
    """Return the network of a model given as layers in order, each of which takes what the one before hands over.

    `head` takes `example_input`, of which shape and type matter; without a head the first layer does. `tail` gives the
    loss. Modules and input may be on the meta device, so a model needs no memory; nothing is changed in them. Of a
    layer that gives several values, the first goes on. With `recompute_sets`, sets of names of modules in a layer or
    ``best``, these are the recompute kinds beside `full`.

    Layers that exchange tokens between experts by `torch.distributed`, in processes that all measure them at once, have
    their `halves`; a warning says where they cannot be told.

    Raises:
        InputError: no layers, or as `timer`, `check_optimizer` and `with_module_sets`.
    """
    times = timer(device=device, accelerator=accelerator, efficiency=efficiency)
    row = row_with_inputs(layers, example_input, head=head, tail=tail, name=name)
    profiled = partial(profile_row, row, timer=times, optimizer=optimizer)
    found = with_module_sets(recompute_sets, row.body, lambda kinds_of_layer: profiled(kinds_of_layer=kinds_of_layer))
    for note in found.unknown_halves:
        warnings.warn(note, stacklevel=2)
    return found.network()


@dataclass(frozen=True, kw_only=True)
class ConfigProfileRequest(ProfileRequest):
    """What `evenflow.profile_config` is asked for."""

    config: Fields | Mapping[str, object] = field(kw_only=False)
    name: str = "model"
    progress: Callable[[str], None] = _silent


@takes(ConfigProfileRequest)
def profile_config(request: ConfigProfileRequest) -> ModelProfile:
    """Return the profile of the decoder that `config`, the contents of a ``config.json``, describes.

    A microbatch has `microbatch` sequences of `sequence` tokens on one device, which has its share of every layer where
    `tensor_parallel` devices share them. Computed times are, with elementwise operators `FUSED`, those of the tables of
    `evenflow.predict` where these know the model; ``eager``, or measured, every operator of the trace is one.

    Raises:
        InputError: as `read_decoder`, `timer`, `check_optimizer` and `with_module_sets`; a dispatcher not in use.
    """
    config = request.config
    fields = config if isinstance(config, Fields) else as_fields(dict(config), file=request.name)
    return profile_training(fields, request, name=request.name, progress=request.progress)


def profile_training(
    config: Fields, request: ProfileRequest, *, name: str, progress: Callable[[str], None]
) -> ModelProfile:
    """Return the profile of a configuration that was read, as `profile_config` does."""
    _check_dispatcher(request)
    times = timer(device=request.device, accelerator=request.accelerator, efficiency=request.efficiency)
    progress(_("building the model"))
    row = read_decoder(
        config,
        sequence=request.sequence,
        microbatch=request.microbatch,
        dtype=parse_dtype(request.dtype),
        tensor_parallel=request.tensor_parallel,
        expert_parallel=request.expert_parallel,
        name=name,
    )
    return with_module_sets(
        request.recompute_sets,
        row.body,
        lambda kinds_of_layer: _profiled(row, times, config, request, kinds_of_layer, progress),
    )


def _check_dispatcher(request: ProfileRequest) -> None:
    if request.token_dispatcher is not None and (request.device != FAKE or request.expert_parallel == 1):
        raise InputError(
            value=request.token_dispatcher,
            rule=_("must come with --expert-parallel and --device fake, which computes exchanges of tokens"),
            place="--token-dispatcher",
        )


def _profiled(
    row: ModelRow,
    times: Timer,
    config: Fields,
    request: ProfileRequest,
    kinds_of_layer: KindsOfLayer,
    progress: Callable[[str], None],
) -> ModelProfile:
    """Return the profile of a row whose layers are under these recompute kinds."""
    depth = predicted_tokens(config)
    traced = profile_row(
        row, timer=times, optimizer=request.optimizer, kinds_of_layer=kinds_of_layer, progress=progress
    )
    found = _by_tables(traced, config, request)
    unknown = without_halves(request, has_experts=any(map(has_experts, row.body)), has_tables=found.tables is not None)
    found = replace(found, notes=(*found.notes, *unknown))
    if not depth or found.tail is None:
        return found
    progress(_("multi-token prediction"))
    joining, tables = joining_part(row, times, request.optimizer, tensor_parallel=request.tensor_parallel), found.tables
    block = further_block(traced.layers[-1], joining)
    if tables is not None:
        block = further_with_predicted(block, found.layers[-1], tables)
    return replace(
        found,
        tail=with_losses(found.tail, depth, kept_bytes=None if tables is None else tables.further_loss_bytes),
        further=further_blocks(block, depth, embedding_bytes=0 if found.head is None else found.head.parameter_bytes),
    )


def _by_tables(traced: ModelProfile, config: Fields, request: ProfileRequest) -> ModelProfile:
    """Return the profile with the times of the tables, where they are asked for and know the model."""
    accelerator, efficiency = request.accelerator, request.efficiency
    if request.device != FAKE or request.elementwise != FUSED or accelerator is None:
        return traced
    return _with_tables(traced, predicted_parts(config, request, accelerator_given(accelerator).reaching(efficiency)))


def profile_row(
    row: ModelRow,
    *,
    timer: Timer,
    optimizer: str,
    kinds_of_layer: KindsOfLayer = offered_kinds,
    progress: Callable[[str], None] = _silent,
) -> ModelProfile:
    """Profile every distinct part of `row` once; `progress` is told which, before it begins."""
    check_optimizer(optimizer)

    def profiled(part: Part, recompute_kinds: Sequence[str]) -> PartProfile:
        progress(part.name)
        return profile_part(part, timer, optimizer, kinds=recompute_kinds)

    def end(parts: tuple[Part, ...]) -> PartProfile | None:
        (part,) = parts or (None,)
        return None if part is None else profiled(part, (NONE,))

    kinds, order = kinds_of(row.body)
    head, traced = end(row.head), [profiled(part, kinds_of_layer(part.module)) for part in kinds]
    profiles, unknown_halves = with_halves_of_mlps(kinds, traced, timer)
    return ModelProfile(
        name=row.name,
        head=head,
        layers=tuple(replace(profiles[kind], name=part.name) for kind, part in zip(order, row.body, strict=True)),
        tail=end(row.tail),
        notes=(timer.origin, *row.notes, *unknown_halves),
        unknown_halves=unknown_halves,
    )


def _with_tables(traced: ModelProfile, tables: PredictedParts | None) -> ModelProfile:
    """Return the profile with what the tables say of its parts, if they know all of them."""
    head, tail = traced.head, traced.tail
    if tables is None or head is None or tail is None or len(tables.layers) != len(traced.layers):
        return _untabled(traced)
    pairs = list(zip(traced.layers, tables.layers, strict=True))
    if not all(is_same_layer(layer, predicted) for layer, predicted in pairs):
        return _untabled(traced)
    note = _("elementwise operators and the loss are fused, as evenflow predict assumes")
    return replace(
        traced,
        head=with_predicted(head, tables.head),
        layers=tuple(with_predicted(layer, predicted) for layer, predicted in pairs),
        tail=with_predicted(tail, tables.tail),
        constant_bytes=tables.constant_bytes,
        tables=tables,
        notes=(*traced.notes, note),
    )


def _untabled(traced: ModelProfile) -> ModelProfile:
    note = _("the tables of evenflow predict do not know this model: every operator of the trace counts by itself")
    return replace(traced, notes=(*traced.notes, note))


def _runs(layers: Sequence[PartProfile]) -> list[tuple[PartProfile, int]]:
    groups = [list(group) for _, group in groupby(layers, key=lambda layer: replace(layer, name=""))]
    return [(group[0], len(group)) for group in groups]


def _further_layers(profiles: Sequence[PartProfile]) -> Iterator[Layer]:
    """Yield the layers of multi-token prediction, all in one stage: each sends on all hidden states so far."""
    for done, profile in enumerate(profiles, start=1):
        sent = profile.message_bytes // 2 * (done + 1)
        yield replace(_layer(profile), is_mtp=True, cut_before=done == 1, boundary_bytes=sent)


def _layer(profile: PartProfile) -> Layer:
    return Layer(
        name=profile.name,
        forward_ns=profile.times.forward_ns,
        parameter_bytes=profile.parameter_bytes,
        modes={
            kind: Mode(
                activation_bytes=size,
                backward_ns=profile.times.backward_ns[kind],
                working_bytes=profile.working_bytes[kind],
            )
            for kind, size in profile.activation_bytes.items()
        },
        stated_weight_ns=profile.times.weight_ns,
        stated_until_weight_bytes=profile.until_weight_bytes,
        halves=profile.times.halves,
    )


def _end_block(profile: PartProfile | None) -> EndBlock:
    if profile is None:
        return EndBlock()
    return EndBlock(
        name=profile.name,
        forward_ns=profile.times.forward_ns,
        backward_ns=profile.times.backward_ns[NONE],
        parameter_bytes=profile.parameter_bytes,
        activation_bytes=profile.activation_bytes[NONE],
        working_bytes=profile.working_bytes[NONE],
        stated_weight_ns=profile.times.weight_ns,
        stated_until_weight_bytes=profile.until_weight_bytes,
    )
