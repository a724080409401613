"""What a profile knows of the halves of layers, and why it does not.

Layers that exchange nothing, beside layers that do, have an MLP, which is told by the name of its module.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from evenflow.language import _
from evenflow.model import NONE, Halves, PassHalves
from evenflow_torch.models.experts.shared_out import exchanges_between_processes
from evenflow_torch.models.made_tensors import copy_with, made_inputs, make_empty
from evenflow_torch.models.part_trace import trace
from evenflow_torch.models.parts import Part
from evenflow_torch.profile.exchange_times import ExchangeLog
from evenflow_torch.profile.part_profile import PartProfile
from evenflow_torch.profile.part_times import PartTimes
from evenflow_torch.profile.timers import Timer
from evenflow_torch.requests import FAKE, ProfileRequest

MLP_NAMES = ("mlp", "feed_forward", "ffn")
"""What the second half of a layer is called in PyTorch's models, outermost name first."""


def with_halves_of_mlps(
    parts: Sequence[Part], profiles: Sequence[PartProfile], timer: Timer
) -> tuple[list[PartProfile], tuple[str, ...]]:
    """Return the profiles of layers with the halves of those that exchange nothing, and what is not known, as notes.

    Where no layer exchanges tokens there is nothing to hide, and nothing to say.
    """
    if not timer.is_measured:
        return list(profiles), _not_computed(parts, profiles)
    if not any(profile.times.exchanges_tokens for profile in profiles):
        return list(profiles), ()
    completed = [
        profile if profile.times.exchanges_tokens else _with_mlp(part, profile, timer)
        for part, profile in zip(parts, profiles, strict=True)
    ]
    unknown = [profile for profile in completed if profile.times.halves is None]
    notes = []
    if mixed := ", ".join(profile.name for profile in unknown if profile.times.exchanges_tokens):
        notes.append(
            _(
                "{names}: tokens do not travel once there and back, with experts between, in each pass; halves are "
                "not written, and forwards beside backwards hide nothing of these layers",
                names=mixed,
            )
        )
    if plain := ", ".join(profile.name for profile in unknown if not profile.times.exchanges_tokens):
        notes.append(
            _(
                "{names}: no module is called {modules}; halves are not written, and forwards beside backwards hide "
                "nothing under these layers",
                names=plain,
                modules=", ".join(MLP_NAMES),
            )
        )
    return completed, tuple(notes)


def without_halves(request: ProfileRequest, *, has_experts: bool, has_tables: bool) -> tuple[str, ...]:
    """Return a sentence that says why the layers of a configuration with experts have no halves; none where they do."""
    if not has_experts:
        return ()
    devices = request.expert_parallel
    if devices == 1:
        note = _("all experts are on one device, so that no tokens travel: halves are not written (--expert-parallel)")
    elif request.device == FAKE:
        if has_tables:
            return ()
        note = _(
            "operators one by one leave out exchanges of tokens between the {devices} devices of experts: "
            "halves are not written",
            devices=devices,
        )
    else:
        if exchanges_between_processes(devices):
            return ()
        note = _(
            "one process measures no exchanges of tokens between {devices} devices: halves are not written; start "
            "{devices} with torchrun",
            devices=devices,
        )
    return (note,)


def _not_computed(parts: Sequence[Part], profiles: Sequence[PartProfile]) -> tuple[str, ...]:
    """Return a sentence where layers exchange tokens, which takes them no time that is computed."""
    if not (dist.is_available() and dist.is_initialized()):
        return ()
    names = [profile.name for part, profile in zip(parts, profiles, strict=True) if _exchanges(part)]
    if not names:
        return ()
    return (
        _(
            "{names}: computed times leave out exchanges of tokens; halves are not written, and measured times, from "
            "device cpu or cuda, have them",
            names=", ".join(names),
        ),
    )


def _exchanges(part: Part) -> bool:
    log = ExchangeLog(lambda: 0)
    with FakeTensorMode(), torch.no_grad(), log:
        _run_on_fakes(part, copy_with(part.module, make_empty))
    return bool(log.taken())


def _run_on_fakes(part: Part, module: nn.Module) -> None:
    module(*made_inputs(part.inputs, make_empty), **made_inputs(dict(part.named_inputs), make_empty))


def _with_mlp(part: Part, profile: PartProfile, timer: Timer) -> PartProfile:
    mlp = _mlp(part)
    if mlp is None:
        return profile
    times = profile.times
    halves = _halves(timer.times(mlp, {NONE: trace(mlp, NONE)}), times)
    return replace(profile, times=replace(times, halves=halves))


def _halves(mlp: PartTimes, layer: PartTimes) -> Halves:
    """Return the halves of a layer with this MLP, no part longer than the pass that it is in."""
    backward_ns = min(mlp.backward_ns[NONE], layer.backward_ns[NONE])
    return Halves(
        forward=PassHalves(mlp_ns=min(mlp.forward_ns, layer.forward_ns)),
        backward=PassHalves(mlp_ns=backward_ns, mlp_weight_ns=min(mlp.weight_ns, backward_ns)),
    )


def _mlp(part: Part) -> Part | None:
    """Return the MLP of a layer as a part with its inputs there; None where no module has such a name."""
    known = dict(part.module.named_children())
    name = next((name for name in MLP_NAMES if name in known), None)
    return None if name is None else _inner_part(part, name)


def _inner_part(part: Part, name: str) -> Part | None:
    taken: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def take(_module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        taken.append((inputs, named))

    with FakeTensorMode(), torch.no_grad():
        module = copy_with(part.module, make_empty)
        module.get_submodule(name).register_forward_pre_hook(take, with_kwargs=True)
        _run_on_fakes(part, module)
    if not taken or not taken[0][0]:
        return None  # it does not run by its own forward, or takes its input by name
    inputs, named = taken[0]
    inner = part.module.get_submodule(name)
    return Part(
        name=f"{part.name}.{name}", module=inner, inputs=inputs, named_inputs=named, index_limit=part.index_limit
    )
