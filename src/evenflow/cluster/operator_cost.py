"""The work of one operator of a traced model, and its time on an accelerator."""

from dataclasses import dataclass

from evenflow.cluster.accelerators import Accelerator


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCost:
    """The numbers from which the time of an operator follows."""

    flops: int = 0
    """Operations of matrix products, convolutions and attention; elementwise operators have none."""
    tensor_bytes: tuple[int, ...] = ()
    """Bytes that it reads of each tensor in, in order, and that it writes of each tensor out."""
    dtype: str = ""
    """The number format of the first result, such as ``bfloat16``."""
    depth: int = 0
    """Length of the sums of a matrix product; 0 for others."""
    summed: tuple[int, int] | None = None
    """The tensor, in the order of `tensor_bytes`, and its dimension that a product sums over, where that is known."""
    is_fused_attention: bool = False
    launches: int = 1
    """Kernels that it starts; none where it makes views, or room without values."""
    parts: tuple["OperatorCost", ...] = ()
    """Costs of what it does one after the other, where that is several things, each with bytes of the same tensors."""

    @staticmethod
    def of_parts(*parts: "OperatorCost") -> "OperatorCost":
        """Return the cost of an operator that consists of several parts, run one after the other."""
        return OperatorCost(
            flops=sum(part.flops for part in parts),
            tensor_bytes=tuple(map(sum, zip(*(part.tensor_bytes for part in parts), strict=True))),
            dtype=parts[0].dtype,
            launches=sum(part.launches for part in parts),
            parts=parts,
        )

    @property
    def moved_bytes(self) -> int:
        """Bytes that the operator reads and writes."""
        return sum(self.tensor_bytes)

    def time_ns(
        self,
        accelerator: Accelerator,
        *,
        work_parts: float = 1,
        sum_parts: int = 1,
        moved_bytes: float | None = None,
    ) -> float:
        """Nanoseconds on one device, whole or of one of `work_parts` equal parts of the operations.

        Sums may be split into `sum_parts` among these. `moved_bytes` are those of the part. An operator that does
        several things takes the time of all of them; of one of its parts, each is asked.
        """
        if self.parts:
            return sum(part.time_ns(accelerator) for part in self.parts)
        return accelerator.time_ns(
            flops=self.flops / work_parts,
            moved_bytes=self.moved_bytes if moved_bytes is None else moved_bytes,
            dtype=self.dtype,
            depth=self.depth / sum_parts,
            calls=self.launches,
            is_fused_attention=self.is_fused_attention,
        )
