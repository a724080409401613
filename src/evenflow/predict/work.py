"""What a device does in a pass through a part of the model: operators, and exchanges with other devices."""

from dataclasses import dataclass, replace
from enum import StrEnum

from evenflow.cluster import Collective
from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.collectives import collective_ns
from evenflow.cluster.topology import DeviceGroup, Topology


class Spent(StrEnum):
    """A purpose that time is spent on."""

    PRODUCTS = "matrix products"
    ATTENTION = "attention"
    OTHER = "other operators"
    TENSOR = "tensor-parallel communication"
    CONTEXT = "context-parallel communication"
    EXPERT = "expert-parallel communication"
    DATA = "data-parallel communication"
    PIPELINE = "pipeline communication"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operators:
    """Equal operators of one kind."""

    spent: Spent
    module: str
    """The sub-module they belong to, as recomputation names it."""
    flops: float = 0.0
    """Floating-point operations of all of them."""
    moved_bytes: float
    """Bytes that all of them read and write."""
    dtype: str = ""
    depth: float = 0.0
    """Length of the sums of a matrix product."""
    calls: int = 1
    """How many they are."""
    is_misaligned: bool = False
    """Whether rows of its matrices start anywhere."""
    slowdown: float = 1.0
    """How many times as long its arithmetic takes as with kernels made for the accelerator."""
    adapters: float = 0.0
    """Numbers of the adapters that it applies, which are trained."""
    is_weight_gradient: bool = False
    """Whether they are gradients of weights, for which no layer waits."""
    narrow: float = 0.0
    """Numbers that the first of two adapters gives, which the second keeps."""

    def time_ns(self, accelerator: Accelerator) -> float:
        """Nanoseconds of all these operators on one device."""
        return accelerator.time_ns(
            flops=self.flops * self.slowdown * (MISALIGNED if self.is_misaligned else 1.0),
            moved_bytes=self.moved_bytes,
            dtype=self.dtype,
            depth=self.depth,
            calls=self.calls,
            is_fused_attention=self.spent is Spent.ATTENTION and not self.depth,  # else products like any others
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A collective of one group."""

    spent: Spent
    module: str
    group: DeviceGroup
    collective: Collective
    size_bytes: float
    """As `collective_ns` takes it: of the unsplit tensor."""
    hidden_share: float = 0.0
    """The share that can run under other work."""
    copies: int = 0
    """Of an all-to-all, members that each number goes to, where it is sent once to each domain; else 0."""
    groups: tuple[int, int] = (1, 1)
    """Groups of the members, and to how many of them the copies of a number go at most."""

    def time_ns(self, topology: Topology) -> float:
        """Nanoseconds of the exchange, hidden or not."""
        is_of_tokens = self.spent is Spent.EXPERT
        axis = topology.axis(
            self.group, self.collective, copies=self.copies, groups=self.groups, is_streamed=is_of_tokens
        )
        return collective_ns(axis, self.collective, round(self.size_bytes))


Work = Operators | Exchange
UNDER_PRODUCTS = 0.85
"""The share of a tensor-parallel collective that runs under the matrix product beside it, where they overlap."""
MISALIGNED = 4.0
"""How much longer a 16-bit product takes whose rows do not start at multiples of 16 bytes: tensor cores need that, and
the other units of an A100 have a quarter of their rate. [NVIDIA, Matrix Multiplication Background User's Guide]"""


_INPUT_BYTES = {"float32": 4.0, "float8": 1.0, "float4": 0.5}
"""Bytes of a number that a product reads, by its format; 2 in the others."""


def product(rows: float, columns: float, depth: float, *, dtype: str, module: str, count: float = 1.0) -> Operators:
    """Return `count` products [rows, depth] x [depth, columns] as one call."""
    read = _INPUT_BYTES.get(dtype, 2.0)
    moved = read * (rows * depth + depth * columns) + max(read, 2.0) * rows * columns
    flops = 2.0 * rows * columns * depth * count
    return Operators(
        spent=Spent.PRODUCTS, module=module, flops=flops, moved_bytes=moved * count, dtype=dtype, depth=depth
    )


def gradients(
    rows: float, columns: float, depth: float, *, dtype: str, module: str, count: float = 1.0
) -> list[Operators]:
    """Return the two products of the backward of `product`: for its input and for its weight."""
    return [
        product(rows, depth, columns, dtype=dtype, module=module, count=count),
        replace(product(depth, columns, rows, dtype=dtype, module=module, count=count), is_weight_gradient=True),
    ]


def elementwise(moved_bytes: float, calls: int, module: str) -> Operators:
    """Return operators that are limited by memory, `moved_bytes` in all."""
    return Operators(spent=Spent.OTHER, module=module, moved_bytes=moved_bytes, calls=calls)
