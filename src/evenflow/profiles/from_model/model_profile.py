"""From parts to a network: every distinct layer is profiled once, equal neighbours become one run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import torch
from torch import nn

from evenflow.cluster.accelerators import EFFICIENCY, accelerator_named
from evenflow.errors import InputError
from evenflow.model import NONE, EndBlock, Layer, LayerRun, Mode, Network
from evenflow.profiles.from_model.measure import REPEATS, measure
from evenflow.profiles.from_model.part_times import PartTimes, Roofline
from evenflow.profiles.from_model.part_trace import Trace, trace
from evenflow.torch_model.made_tensors import made_inputs
from evenflow.torch_model.optimizers import check_optimizer, parameter_bytes
from evenflow.torch_model.parts import ModelRow, Part
from evenflow.torch_model.recompute import offered_kinds
from evenflow.torch_model.rows import model_row, runs_on_fakes


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """Where the times of parts come from."""

    times: Callable[[Part, Mapping[str, Trace]], PartTimes]
    """Of a part whose traces by recompute kind are known."""
    origin: str
    """One sentence for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartProfile:
    """What was found out about a part, for one microbatch."""

    name: str
    num_parameters: int
    parameter_bytes: int
    forward_flops: int
    activation_bytes: Mapping[str, int]
    """By recompute kind; ends of the model have ``none`` only."""
    weight_bytes: int
    working_bytes: Mapping[str, int]
    times: PartTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """The profiles of a model's parts, in order."""

    name: str
    head: PartProfile | None
    layers: tuple[PartProfile, ...]
    tail: PartProfile | None

    @property
    def runs(self) -> list[tuple[PartProfile, int]]:
        """Equal layers in a row, under the name of the first, and how many they are."""
        groups = [list(group) for _, group in groupby(self.layers, key=lambda layer: replace(layer, name=""))]
        return [(group[0], len(group)) for group in groups]

    @property
    def parts(self) -> list[tuple[str, PartProfile, int]]:
        """Head, distinct layers in order, and tail: type in a layer file, profile, and how many of them in a row."""
        head = [] if self.head is None else [("HEAD", self.head, 1)]
        tail = [] if self.tail is None else [("TAIL", self.tail, 1)]
        return [*head, *(("BODY", layer, count) for layer, count in self.runs), *tail]

    def network(self) -> Network:
        """The network to plan for; its constant is the largest working memory of a layer under any kind."""
        return Network(
            name=self.name,
            runs=tuple(LayerRun(layer=_layer(layer), count=count) for layer, count in self.runs),
            head=_end_block(self.head),
            tail=_end_block(self.tail),
            constant_bytes=max(max(layer.working_bytes.values()) for layer in self.layers),
        )


def timer(*, device: str, accelerator: str | None = None, efficiency: float = EFFICIENCY) -> Timer:
    """Times from a device, ``cpu`` or ``cuda``, or, where that is ``fake``, from what is known of an accelerator.

    Raises:
        InputError: an unknown or missing accelerator, a device that is not there, an efficiency that is no share.
    """
    if device == "fake":
        if accelerator is None:
            raise InputError(
                value=None, rule="times without a device need an accelerator", place="accelerator", remedy="name one"
            )
        if not 0 < efficiency <= 1:
            raise InputError(value=efficiency, rule="a share above 0 and at most 1", place="efficiency")
        roofline = Roofline(accelerator=accelerator_named(accelerator), efficiency=efficiency)
        return Timer(times=lambda _part, traces: roofline.times(traces), origin=roofline.origin())
    if device not in ("cpu", "cuda"):
        raise InputError(value=device, rule="one of fake, cpu, cuda", place="device")
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError(
            value=device, rule="PyTorch sees a CUDA device", place="device", remedy="use fake with an accelerator"
        )
    return Timer(
        times=lambda part, traces: measure(part, list(traces), device=torch.device(device)),
        origin=f"times are measured on {device}, the median of {REPEATS}",
    )


def profile(
    layers: Sequence[nn.Module],
    example_input: torch.Tensor,
    *,
    head: nn.Module | None = None,
    tail: nn.Module | None = None,
    name: str = "model",
    device: str = "fake",
    accelerator: str | None = None,
    efficiency: float = EFFICIENCY,
    optimizer: str = "adam",
) -> Network:
    """The network of a model given as an ordered list of layers, each of which takes what the one before gives.

    `head` takes `example_input`, of which shape and type matter; without a head the first layer does. `tail` gives the
    loss. Modules and input may be on the meta device, so a model needs no memory; nothing is changed in them. Of a
    layer that gives several values, the first goes on.

    Raises:
        InputError: no layers, or as `timer` and `check_optimizer`.
    """
    find_times = timer(device=device, accelerator=accelerator, efficiency=efficiency)
    row = model_row(layers, example_input, head=head, tail=tail, name=name)
    return profile_row(row, find_times=find_times, optimizer=optimizer).network()


def profile_row(
    row: ModelRow,
    *,
    find_times: Timer,
    optimizer: str,
    progress: Callable[[str], None] = lambda _name: None,
) -> ModelProfile:
    """Profile every distinct part of `row` once; `progress` is told which, before it begins."""
    check_optimizer(optimizer)
    known: dict[object, PartProfile] = {}

    def profiled(part: Part, *, is_layer: bool) -> PartProfile:
        key = is_layer, signature(part)
        if key not in known:
            progress(part.name)
            known[key] = _profile_part(part, find_times, optimizer, is_layer=is_layer)
        return replace(known[key], name=part.name)

    def end(parts: tuple[Part, ...]) -> PartProfile | None:
        (part,) = parts or (None,)
        return None if part is None else profiled(part, is_layer=False)

    return ModelProfile(
        name=row.name,
        head=end(row.head),
        layers=tuple(profiled(part, is_layer=True) for part in row.body),
        tail=end(row.tail),
    )


def signature(part: Part) -> object:
    """Equal for parts that cost the same: classes, attributes, shapes of parameters and inputs.

    A layer's number in the model is no difference.
    """
    modules = tuple(
        (name, type(module), tuple(sorted(_attributes(module).items()))) for name, module in part.module.named_modules()
    )
    tensors = [*part.module.named_parameters(), *part.module.named_buffers()]
    shapes = tuple((name, tensor.shape, tensor.dtype, tensor.requires_grad) for name, tensor in tensors)
    return modules, shapes, repr(made_inputs((part.inputs, dict(part.named_inputs)), _description))


def _attributes(module: nn.Module) -> dict[str, str]:
    """What a class adds to a module, as text; of objects only what they are."""
    apart = {*vars(nn.Module()), "layer_idx", "layer_id", "layer_number"}
    return {key: _text(value) for key, value in vars(module).items() if key not in apart}


def _text(value: object) -> str:
    if value is None or isinstance(value, bool | int | float | str | tuple | list | dict):
        return repr(value)
    return str(getattr(value, "__qualname__", type(value).__qualname__))


def _description(tensor: torch.Tensor) -> Any:
    return (tuple(tensor.shape), tensor.dtype)


def _profile_part(part: Part, find_times: Timer, optimizer: str, *, is_layer: bool) -> PartProfile:
    kinds = offered_kinds(part.module) if is_layer else (NONE,)
    with runs_on_fakes(part.name):
        traces = {kind: trace(part, kind) for kind in kinds}
    parameters = list(part.module.parameters())
    return PartProfile(
        name=part.name,
        num_parameters=sum(tensor.numel() for tensor in parameters),
        parameter_bytes=parameter_bytes(parameters, optimizer),
        forward_flops=sum(operator.flops for operator in traces[NONE].forward),
        activation_bytes={kind: found.activation_bytes for kind, found in traces.items()},
        weight_bytes=traces[NONE].weight_bytes,
        working_bytes={kind: found.working_bytes for kind, found in traces.items()},
        times=find_times.times(part, traces),
    )


def _layer(found: PartProfile) -> Layer:
    return Layer(
        name=found.name,
        forward_ns=found.times.forward_ns,
        parameter_bytes=found.parameter_bytes,
        modes={
            kind: Mode(activation_bytes=size, backward_ns=found.times.backward_ns[kind])
            for kind, size in found.activation_bytes.items()
        },
        stated_weight_ns=found.times.weight_ns,
        stated_weight_bytes=found.weight_bytes,
    )


def _end_block(found: PartProfile | None) -> EndBlock:
    if found is None:
        return EndBlock()
    return EndBlock(
        name=found.name,
        forward_ns=found.times.forward_ns,
        backward_ns=found.times.backward_ns[NONE],
        parameter_bytes=found.parameter_bytes,
        activation_bytes=found.activation_bytes[NONE],
        stated_weight_ns=found.times.weight_ns,
        stated_weight_bytes=found.weight_bytes,
    )
