"""Model types of transformers beside Llama-like decoders: where their embeddings, layers and ends are. No torch.

Everything in a stack that is neither a layer nor behind the layers makes its hidden states, and is the head of the row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class ModelTask(Enum):
    """What a model is trained for; it names the class that transformers builds."""

    NEXT_TOKEN = "next token"
    MASKED_TOKENS = "masked tokens"
    TARGET_TOKENS = "target tokens"
    """The next token of a target sequence, from it and from a source sequence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerStack:
    """Embeddings, layers one after the other, and what follows them."""

    path: str
    layers: str
    """Path of the list of layers inside the stack."""
    behind: tuple[str, ...] = ()
    """Names of the stack's modules behind the layers, in order; those that a configuration leaves out are None."""
    results: int = 1
    """Values that a layer returns, the first of which the next one takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFamily:
    """Models of one structure."""

    task: ModelTask
    stacks: tuple[LayerStack, ...]
    """The only stack, or encoder and decoder."""
    output: str
    """Path of the module that makes the logits."""

    @property
    def has_source(self) -> bool:
        """Whether there is an encoder, with a sequence of its own."""
        return len(self.stacks) > 1


def _decoder(path: str, layers: str, *behind: str, results: int = 1) -> ModelFamily:
    stack = LayerStack(path=path, layers=layers, behind=behind, results=results)
    return ModelFamily(task=ModelTask.NEXT_TOKEN, stacks=(stack,), output="lm_head")


def _encoder(path: str, output: str) -> ModelFamily:
    return ModelFamily(
        task=ModelTask.MASKED_TOKENS, stacks=(LayerStack(path=path, layers="encoder.layer"),), output=output
    )


def _both(encoder: str, decoder: str, layers: str, *behind: str, results: int = 1) -> ModelFamily:
    stacks = tuple(LayerStack(path=path, layers=layers, behind=behind, results=results) for path in (encoder, decoder))
    return ModelFamily(task=ModelTask.TARGET_TOKENS, stacks=stacks, output="lm_head")


_GPT2 = _decoder("transformer", "h", "ln_f")
_GPT2_WITH_WEIGHTS = _decoder("transformer", "h", "ln_f", results=2)
_T5 = _both("encoder", "decoder", "block", "final_layer_norm", results=3)
_BART = _both("model.encoder", "model.decoder", "layers")
_MBART = _both("model.encoder", "model.decoder", "layers", "layer_norm")
_ROBERTA = _encoder("roberta", "lm_head")

FAMILIES: Mapping[str, ModelFamily] = {
    **dict.fromkeys(("gpt2", "gpt_bigcode"), _GPT2),
    **dict.fromkeys(("gpt_neo", "gptj", "codegen", "bloom", "falcon"), _GPT2_WITH_WEIGHTS),
    "gpt_neox": _decoder("gpt_neox", "layers", "final_layer_norm"),
    "opt": _decoder("model.decoder", "layers", "final_layer_norm", "project_out"),
    "mpt": _decoder("transformer", "blocks", "norm_f", results=2),
    "phi": _decoder("model", "layers", "final_layernorm"),
    "bert": _encoder("bert", "cls"),
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert"), _ROBERTA),
    **dict.fromkeys(("t5", "mt5"), _T5),
    "bart": _BART,
    **dict.fromkeys(("mbart", "m2m_100", "pegasus"), _MBART),
}
"""The structure of every such model type."""
