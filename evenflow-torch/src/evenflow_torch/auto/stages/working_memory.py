"""The working memory of a row's layers: traced on a whole layer, and divided over devices like activations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenflow.model import FULL, NONE
from evenflow_torch.models.parts import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingMemory:
    """The memory that one layer needs for one microbatch, all devices together."""

    activation_bytes: int
    """What it keeps without recomputation."""
    plain_bytes: int
    """What forward or backward need beyond that at their fullest moment."""
    recomputing_bytes: Mapping[str, int]
    """The same where it recomputes, beyond what it then keeps, by recompute kind."""

    def on_device(self, size_bytes: int, *, activation_bytes: int, num_devices: int) -> int:
        """Return one device's part of `size_bytes`, where it keeps `activation_bytes` of the activation.

        What a layer works on lies as what it keeps: on all devices where they hold the same, else divided.
        """
        whole = max(1, self.activation_bytes)
        kept = min(whole, max(activation_bytes, -(-whole // num_devices)))
        return -(-size_bytes * kept // whole)


def working_memory(kinds: Sequence[Part], ends: Sequence[int]) -> tuple[WorkingMemory, ...]:
    """Return the working memory of each kind of layer; `ends` are the kinds that never recompute.

    Empty where one does not run on tensors without values.
    """
    from evenflow_torch.models.checkpointing import modules_of_kinds  # loads torch
    from evenflow_torch.models.part_trace import trace

    memories = []
    for place, part in enumerate(kinds):
        try:
            plain = trace(part, NONE)
            kinds_of_part = () if place in ends else (*modules_of_kinds(part.module), FULL)
            recomputing = {kind: trace(part, kind).working_bytes for kind in kinds_of_part}
        except Exception:  # noqa: BLE001  any module of a user's may raise anything here
            return ()
        memories.append(
            WorkingMemory(
                activation_bytes=plain.activation_bytes,
                plain_bytes=plain.working_bytes,
                recomputing_bytes=recomputing,
            )
        )
    return tuple(memories)
