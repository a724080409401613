"""What one part of a model costs: memory from its traces on fake tensors, times from a timer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from evenflow.model import NONE
from evenflow.model.kept_per_parameter import kept_bytes
from evenflow_torch.models.checkpointing import names_of_kind
from evenflow_torch.models.part_output import runs_on_fakes
from evenflow_torch.models.part_trace import trace
from evenflow_torch.models.parts import Part
from evenflow_torch.profile.part_times import PartTimes
from evenflow_torch.profile.timers import Timer


@dataclass(frozen=True, slots=True, kw_only=True)
class PartProfile:
    """Memory and times of one part for one microbatch."""

    name: str
    num_parameters: int
    parameter_bytes: int
    """Bytes of weights, gradients and optimizer state."""
    forward_flops: int
    activation_bytes: Mapping[str, int]
    """Bytes from the forward to the backward, by recompute kind; ends of the model have ``none`` only."""
    fused_activation_bytes: Mapping[str, int]
    """As `activation_bytes`, where elementwise operators are fused."""
    until_weight_bytes: int
    """Bytes from the input gradient to the weight gradient, without recomputation."""
    working_bytes: Mapping[str, int]
    """Bytes that forward or backward need at their peak beyond the activation, by recompute kind."""
    message_bytes: int
    """Bytes of its input and of the gradient that goes back, where the part before is on another rank."""
    times: PartTimes
    experts_again: frozenset[str] = frozenset()
    """The recompute kinds under which experts compute again, for which tokens travel again too."""

    def under(self, kinds: Iterable[str]) -> "PartProfile":
        """Return the profile with these of its recompute kinds alone."""
        kept = list(kinds)

        def those(of_kinds: Mapping[str, int]) -> dict[str, int]:
            return {kind: of_kinds[kind] for kind in kept}

        return replace(
            self,
            activation_bytes=those(self.activation_bytes),
            fused_activation_bytes=those(self.fused_activation_bytes),
            working_bytes=those(self.working_bytes),
            times=replace(self.times, backward_ns=those(self.times.backward_ns)),
        )


def profile_part(part: Part, timer: Timer, optimizer: str, *, kinds: Sequence[str] = (NONE,)) -> PartProfile:
    """Profile `part` under recompute kinds, ``none`` among them; those of the same submodules are tried once."""
    submodules = {kind: names_of_kind(part.module, kind) for kind in kinds}
    tried = {names: kind for kind, names in reversed(submodules.items())}
    with runs_on_fakes(part.name):
        of_tried = {kind: trace(part, kind) for kind in kinds if tried[submodules[kind]] == kind}
    traces = {kind: of_tried[tried[names]] for kind, names in submodules.items()}
    times = timer.times(part, of_tried)
    backward_ns = {kind: times.backward_ns[tried[names]] for kind, names in submodules.items()}
    parameters = list(part.module.parameters())
    return PartProfile(
        name=part.name,
        num_parameters=sum(tensor.numel() for tensor in parameters),
        parameter_bytes=parameter_bytes(parameters, optimizer),
        forward_flops=sum(operator.cost.flops for operator in traces[NONE].forward),
        activation_bytes={kind: part_trace.activation_bytes for kind, part_trace in traces.items()},
        fused_activation_bytes={kind: part_trace.fused_activation_bytes for kind, part_trace in traces.items()},
        until_weight_bytes=traces[NONE].until_weight_bytes,
        working_bytes={kind: part_trace.working_bytes for kind, part_trace in traces.items()},
        message_bytes=2 * part.inputs[0].nbytes if part.takes_gradient else 0,
        times=replace(times, backward_ns=backward_ns),
        experts_again=frozenset(kind for kind, part_trace in traces.items() if part_trace.computes_experts_again),
    )


def parameter_bytes(parameters: Iterable[torch.Tensor], optimizer: str) -> int:
    """Return the bytes of `parameters` in training; a frozen one has neither gradient nor optimizer state."""
    return sum(
        tensor.numel()
        * (
            kept_bytes(optimizer, weight_bytes=tensor.element_size()).total
            if tensor.requires_grad
            else tensor.element_size()
        )
        for tensor in parameters
    )
