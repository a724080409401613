"""What a framework's configuration says of the degrees of a training, before anything is taken for what it does not."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from evenflow.fields import Fields
from evenflow.predict.training import Sharding
from evenflow.ranges import DEVICES, RANKS, SEQUENCES, TOKENS, Range

_RANGES: Mapping[str, Range] = {
    "pipeline": RANKS,
    "microbatch": SEQUENCES,
    "global_batch": SEQUENCES,
    "rank_batch": SEQUENCES,
    "sequence": TOKENS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedDegrees:
    """The degrees in a configuration; None for what it does not say."""

    tensor: int | None = None
    context: int | None = None
    expert: int | None = None
    expert_tensor: int | None = None
    pipeline: int | None = None
    data: int | None = None
    devices: int | None = None
    """In all."""
    sharding: Sharding | None = None
    sequence_parallel: bool | None = None
    context_exchange: str | None = None
    microbatch: int | None = None
    """Sequences of a microbatch of each copy of the model."""
    global_batch: int | None = None
    """Sequences of a step."""
    rank_batch: int | None = None
    """Sequences of a step of each copy of the model."""
    sequence: int | None = None
    """Tokens of a sequence."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Where a field stands, for messages."""
    unknown: tuple[str, ...] = ()
    """Keys that split the model or share its state out and are not understood, each with its place."""
    notes: tuple[str, ...] = ()
    """What was assumed; translated."""

    def place(self, name: str, file: str) -> str:
        """Return where a field stands, or the file with the field's name."""
        return self.places.get(name, f"{file}: {name}")


def whole_numbers(sections: Mapping[str, tuple[Fields, str]]) -> tuple[dict[str, int], dict[str, str]]:
    """Return the whole numbers of fields of `StatedDegrees` that stand under keys of sections, and their places.

    A key that is missing or null says nothing.

    Raises:
        InputError: a value that is no whole number, or out of range.
    """
    numbers: dict[str, int] = {}
    places: dict[str, str] = {}
    for name, (fields, key) in sections.items():
        if fields.values.get(key) is not None:
            numbers[name] = fields.integer(key, _RANGES.get(name, DEVICES))
            places[name] = fields.place(key)
    return numbers, places
