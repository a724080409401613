"""How products in 8 or 4 bits scale their numbers: what each recipe casts, and how fast its products are.

Casts are those of NVIDIA's Transformer Engine, whose documentation has layers of a model with 5 billion parameters
(hidden size 4,096) against 16 bits: on an H200 products alone 1.92 times as fast, with casts 1.69 times (delayed),
1.57 (one scale of a tensor, found at once) and 1.41 (blocks); on a B300 with casts 1.61 (delayed), 1.41 (one scale),
1.44 (MXFP8) and 2.03 (NVFP4; its products alone 3.55). [docs/features/low_precision_training/speedups.rst at 03b5742]
How fast products with a scale for every row are is not known from there: they are taken to be as fast as those with
one for every block.
"""

from collections.abc import Mapping
from dataclasses import dataclass

DELAYED, TENSORWISE, BLOCKWISE, ROWWISE, MXFP8, NVFP4 = (
    "delayed", "tensorwise", "blockwise", "rowwise", "mxfp8", "nvfp4"
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a recipe takes."""

    casts: float = 1.0
    """Traffic of its casts, in those of delayed scaling, which reads a number once and writes it once or twice."""
    slowdown: float = 1.0
    """How many times as long its products take as with one scale for a tensor."""
    gathered_bytes: int = 1
    """Bytes of a number in which tensor-parallel devices gather what a product reads: cast before they do, or after."""


RECIPES: Mapping[str, Recipe] = {
    DELAYED: Recipe(),
    TENSORWISE: Recipe(casts=1.7),
    BLOCKWISE: Recipe(slowdown=1.2),
    ROWWISE: Recipe(casts=1.7, slowdown=1.2, gathered_bytes=2),
    MXFP8: Recipe(casts=1.7),
    NVFP4: Recipe(casts=2.1),
}
"""By name."""
OF_FORMATS: Mapping[str, tuple[str, ...]] = {
    "fp8": (DELAYED, TENSORWISE, BLOCKWISE, ROWWISE, MXFP8),
    "nvfp4": (NVFP4,),
}
"""Recipes of a precision, the usual one first."""


def recipe_of(precision: str, name: str) -> Recipe:
    """Return the recipe called `name`, the usual one of a precision that has no such; wide formats cast nothing."""
    names = OF_FORMATS.get(precision, ())
    return RECIPES[name if name in names else names[0]] if names else Recipe(casts=0.0, gathered_bytes=2)
