"""Degrees that vendors publish for a model on an accelerator: tried first, and shown beside the ranking."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenflow.predict.training import Training
from evenflow.predict.transformer import Transformer
from evenflow.tune.question import TuningQuestion

_BRIDGE = "Megatron-Bridge"
_ZOO = "Megatron-MoE-ModelZoo"


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorRecipe:
    """A published way to split a model; data parallelism follows from the devices."""

    model: str
    hidden: int
    layers: int
    experts: int = 0
    accelerator: str
    tensor: int = 1
    context: int = 1
    expert: int = 1
    pipeline: int = 1
    chunks: int = 1
    microbatch: int = 1
    source: str = _BRIDGE
    vendor: str = "NVIDIA"

    def is_for(self, model: Transformer, accelerator: str) -> bool:
        """Return whether it is published for this model on this accelerator."""
        experts = model.experts.count if model.experts is not None else 0
        sizes = model.hidden, model.layers, experts
        return (self.hidden, self.layers, self.experts, self.accelerator) == (*sizes, accelerator)

    def has_split(self, training: Training) -> bool:
        """Return whether a training is split as it says, whatever its order of work and what is shared out."""
        degrees = training.degrees
        own = degrees.tensor, degrees.context, degrees.expert, degrees.pipeline, training.microbatch
        return own == (self.tensor, self.context, self.expert, self.pipeline, self.microbatch)

    def is_of(self, training: Training) -> bool:
        """Return whether a training is as it says, whatever is shared out."""
        return self.has_split(training) and training.degrees.chunks == self.chunks


def recipes_for(question: TuningQuestion) -> tuple[VendorRecipe, ...]:
    """Return the recipes for the model and the accelerator of a question, whether or not its devices allow them."""
    name = question.topology.accelerator.name
    return tuple(recipe for recipe in RECIPES if recipe.is_for(question.model, name))


def _recipes(
    model: str, sizes: tuple[int, int, int], rows: Mapping[str, Sequence[tuple[int, int, int, int, int, int]]]
) -> list[VendorRecipe]:
    """Return Megatron-Bridge's recipes of a model: of each accelerator tensor, context, expert, pipeline, chunks and
    microbatch of some; `sizes` are the model's width, layers and experts.
    """
    hidden, layers, experts = sizes
    return [
        VendorRecipe(
            model=model, hidden=hidden, layers=layers, experts=experts, accelerator=accelerator, tensor=tensor,
            context=context, expert=expert, pipeline=pipeline, chunks=chunks, microbatch=microbatch,
        )
        for accelerator, own in rows.items()
        for tensor, context, expert, pipeline, chunks, microbatch in own
    ]  # fmt: skip


RECIPES: tuple[VendorRecipe, ...] = (
    *_recipes("Llama 3.1 8B", (4096, 32, 0), {
        "h100": [(1, 1, 1, 1, 1, 1)],
        "b200": [(1, 1, 1, 1, 1, 2)],
        "gb200": [(1, 1, 1, 1, 1, 2)],
        "gb300": [(1, 1, 1, 1, 1, 2)],
    }),
    *_recipes("Llama 3.1 70B", (8192, 80, 0), {
        "h100": [(4, 1, 1, 8, 5, 1)],
        "gb200": [(1, 1, 1, 1, 1, 2), (2, 1, 1, 4, 5, 1)],
        "gb300": [(1, 1, 1, 1, 1, 2), (1, 1, 1, 4, 5, 1)],
    }),
    *_recipes("Llama 3.1 405B", (16384, 126, 0), {
        "h100": [(8, 2, 1, 8, 8, 1)],
        "b200": [(4, 2, 1, 8, 8, 1)],
        "gb200": [(4, 1, 1, 16, 8, 1)],
        "gb300": [(4, 1, 1, 8, 4, 1), (2, 2, 1, 8, 4, 1)],
    }),
    *_recipes("Qwen3 235B-A22B", (4096, 94, 128), {
        "h100": [(2, 1, 32, 8, 4, 1)],
        "b200": [(1, 1, 8, 8, 2, 1)],
        "b300": [(1, 1, 8, 8, 4, 1)],
        "gb200": [(1, 1, 32, 8, 3, 1)],
        "gb300": [(1, 1, 32, 4, 12, 2)],
    }),
    *_recipes("Qwen3 30B-A3B", (2048, 48, 128), {
        "h100": [(1, 1, 16, 1, 1, 1)],
        "b200": [(1, 1, 8, 1, 1, 4)],
        "b300": [(1, 1, 8, 1, 1, 8)],
        "gb200": [(1, 1, 8, 1, 1, 4)],
        "gb300": [(1, 1, 8, 1, 1, 8)],
    }),
    VendorRecipe(
        model="Mixtral 8x22B", hidden=6144, layers=56, experts=8, accelerator="h100", tensor=2, expert=8, pipeline=8,
        source=_ZOO,
    ),
    VendorRecipe(
        model="DeepSeek-V3", hidden=7168, layers=61, experts=256, accelerator="h100", expert=64, pipeline=16,
        source=_ZOO,
    ),
    VendorRecipe(
        model="GPT-3 175B", hidden=12288, layers=96, accelerator="h100", tensor=4, pipeline=8, chunks=12,
        source="MLPerf Training 3.0",
    ),
)  # fmt: skip
"""Of several for one number format, the one published last."""
