"""Further parts that a model may have, and the sizes that they depend on."""

from dataclasses import dataclass

from evenflow.predict.layer_parts import Addition


@dataclass(frozen=True, slots=True, kw_only=True)
class Widths:
    """Sizes of a layer that its further parts depend on."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    values: int
    """Numbers of all heads together."""
    head_dim: int
    ffn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Further:
    """Further parts of a model."""

    layer: tuple[Addition, ...] = ()
    head: tuple[Addition, ...] = ()
    tail: tuple[Addition, ...] = ()
    streams: int = 1
    carried: int = 0
    handed_on: int = 0
    reversible: bool = False
    output_width: int = 0
    positions: int = 0
    fixed_sequence: int = 0
    bidirectional: bool = False
    distances: int = 0

    def __add__(self, other: "Further") -> "Further":
        return Further(
            layer=self.layer + other.layer,
            head=self.head + other.head,
            tail=self.tail + other.tail,
            streams=max(self.streams, other.streams),
            carried=self.carried + other.carried,
            handed_on=self.handed_on + other.handed_on,
            reversible=self.reversible or other.reversible,
            output_width=self.output_width or other.output_width,
            positions=self.positions or other.positions,
            fixed_sequence=self.fixed_sequence or other.fixed_sequence,
            bidirectional=self.bidirectional or other.bidirectional,
            distances=self.distances + other.distances,
        )
