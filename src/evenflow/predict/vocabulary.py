"""What software does with the same mathematics, as people say it: the one table of words and their synonyms.

Rows of measured runs, logs, files and options are read with it. Words are compared without case, dashes, underscores,
dots and blanks. Those that change nothing that is predicted are known too, so that all others can be refused.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any

from evenflow.predict.recipes import BLOCKWISE, DELAYED, MXFP8, NVFP4, ROWWISE, TENSORWISE
from evenflow.predict.training import Sharding, Software

PORTABLE_ATTENTION = 1.9
"""Of attention kernels for every accelerator: FlashAttention-2 reaches 35 % of an H100, one made for it 75 %.
[FlashAttention-3, arXiv:2407.08608, §1]"""


class Aspect(StrEnum):
    """What a word is about; of two words about the same, one can hold."""

    DISPATCHER = "dispatcher"
    ATTENTION = "attention"
    LOSS = "loss"
    LOGITS = "logits"
    SAVED_INPUTS = "saved inputs"
    ELEMENTWISE = "elementwise"
    TENSOR = "tensor"
    GRADIENTS = "gradients"
    PARAMETERS = "parameters"
    PIPELINE = "pipeline"
    EXPERTS = "experts"
    GRAPHS = "graphs"
    RECIPE = "recipe"
    GRADIENT_DTYPE = "gradient dtype"
    GATHER_DTYPE = "gather dtype"
    SHARDING = "sharding"
    PLACEMENT = "placement"
    OPTIMIZER = "optimizer overlap"
    BUNDLE = "several"
    """What more special words change again, wherever they stand."""
    NOTHING = "nothing"
    """What is said elsewhere, or is not priced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareWord:
    """A word, what it changes, and how others write it."""

    name: str
    aspect: Aspect
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `Software`."""
    synonyms: tuple[str, ...] = ()
    sharding: Sharding | None = None
    data_outermost: bool = False
    """Whether copies of the model lie furthest apart, as `Degrees` has it."""

    def __hash__(self) -> int:
        return hash(self.name)


_OVERLAP_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "tensor": ("tp-comm-overlap", "async-tp", "async-tensor-parallel", "enable-async-tensor-parallel", "mc2",
               "use-ascend-mc2", "userbuffers"),
    "gradients": ("overlap-grad-reduce", "grad-reduce-overlap"),
    "parameters": ("overlap-param-gather", "param-gather-overlap"),
    "pipeline": ("overlap-p2p", "overlap-p2p-comm", "overlap-p2p-communication"),
    "experts": ("overlap-moe-expert-parallel-comm", "moe-fb-overlap", "ep-overlap", "dualpipe-overlap"),
}  # fmt: skip


def _overlaps() -> Iterable[SoftwareWord]:
    for name, synonyms in _OVERLAP_SYNONYMS.items():
        for word, is_on in ((f"overlap-{name}", True), (f"no-overlap-{name}", False)):
            yield SoftwareWord(
                name=word,
                aspect=Aspect(name),
                changes={f"overlaps_{name}": is_on},
                synonyms=synonyms if is_on else tuple(f"no-{synonym}" for synonym in synonyms),
            )


WORDS: tuple[SoftwareWord, ...] = (
    SoftwareWord(name="alltoall", aspect=Aspect.DISPATCHER,
         changes={"sends_tokens_once": False, "permutes_sent": False}, synonyms=("a2a",)),
    SoftwareWord(name="deepep", aspect=Aspect.DISPATCHER, changes={"sends_tokens_once": True, "permutes_sent": False},
         synonyms=("moe-enable-deepep", "use-deepep", "uccl-ep")),
    SoftwareWord(name="hybridep", aspect=Aspect.DISPATCHER, changes={"sends_tokens_once": True, "permutes_sent": True}),
    SoftwareWord(name="fused-attention", aspect=Aspect.ATTENTION,
         changes={"fused_attention": True, "attention_slowdown": 1.0},
         synonyms=("cudnn", "cudnn-attention", "te-attention", "flash-attention-3", "flash-attn-3", "fa3")),
    SoftwareWord(name="flash-attention", aspect=Aspect.ATTENTION, changes={"fused_attention": True},
         synonyms=("flash", "flash-attn", "use-flash-attn")),
    SoftwareWord(name="portable-attention", aspect=Aspect.ATTENTION,
         changes={"fused_attention": True, "attention_slowdown": PORTABLE_ATTENTION},
         synonyms=("flash-attention-2", "flash-attn-2", "fa2", "sdpa", "torch-sdpa", "flex", "flex-attn",
                   "flex-attention", "triton-attention")),
    SoftwareWord(name="unfused-attention", aspect=Aspect.ATTENTION, changes={"fused_attention": False},
         synonyms=("unfused", "eager-attention", "math-attention")),
    SoftwareWord(name="fused-loss", aspect=Aspect.LOSS, changes={"fused_loss": True, "compiled_loss": False},
         synonyms=("cross-entropy-loss-fusion", "cross-entropy-fusion", "fused-cross-entropy", "liger-loss")),
    SoftwareWord(name="compiled-loss", aspect=Aspect.LOSS, changes={"fused_loss": True, "compiled_loss": True},
         synonyms=("compile-loss",)),
    SoftwareWord(name="unfused-loss", aspect=Aspect.LOSS, changes={"fused_loss": False, "compiled_loss": False},
         synonyms=("eager-loss",)),
    SoftwareWord(name="gathered-logits", aspect=Aspect.LOGITS, changes={"gathers_logits": True},
         synonyms=("no-loss-parallel", "disable-loss-parallel", "gather-output")),
    SoftwareWord(name="split-logits", aspect=Aspect.LOGITS, changes={"gathers_logits": False},
         synonyms=("loss-parallel", "vocab-parallel-loss", "parallel-output")),
    SoftwareWord(name="fp8-saved-inputs", aspect=Aspect.SAVED_INPUTS, changes={"saves_in_8_bits": True},
         synonyms=("activation-func-fp8-input-store", "fp8-activation-inputs")),
    SoftwareWord(name="bf16-saved-inputs", aspect=Aspect.SAVED_INPUTS, changes={"saves_in_8_bits": False}),
    SoftwareWord(name="fused-elementwise", aspect=Aspect.ELEMENTWISE,
         changes={"fused_elementwise": True, "fuses_casts": False}, synonyms=("fused-kernels",)),
    SoftwareWord(name="compiled-elementwise", aspect=Aspect.ELEMENTWISE,
         changes={"fused_elementwise": True, "fuses_casts": True},
         synonyms=("compile", "compiled", "torch.compile", "inductor")),
    SoftwareWord(name="eager-elementwise", aspect=Aspect.ELEMENTWISE,
         changes={"fused_elementwise": False, "fuses_casts": False},
         synonyms=("eager", "no-compile")),
    *_overlaps(),
    SoftwareWord(name="overlap-optimizer", aspect=Aspect.OPTIMIZER,
         synonyms=("overlap-param-gather-with-optimizer-step", "overlap-param-gather-with-optim-step")),
    SoftwareWord(name="cuda-graphs", aspect=Aspect.GRAPHS, changes={"captured_graphs": True},
         synonyms=("cuda-graph", "cudagraph", "cudagraphs", "full-cuda-graph", "enable-cuda-graph",
                   "external-cuda-graph", "full-iteration", "full-iteration-graph")),
    SoftwareWord(name="no-cuda-graphs", aspect=Aspect.GRAPHS, changes={"captured_graphs": False}),
    SoftwareWord(name="partial-cuda-graphs", aspect=Aspect.GRAPHS),
    SoftwareWord(name=DELAYED, aspect=Aspect.RECIPE, changes={"recipe": DELAYED},
         synonyms=("delayed-scaling", "fp8-ds")),
    SoftwareWord(name=TENSORWISE, aspect=Aspect.RECIPE, changes={"recipe": TENSORWISE},
         synonyms=("per-tensor", "current", "current-scaling", "fp8-cs", "fp8-tensorwise", "float8-tensorwise",
                   "dynamic-scaling")),
    SoftwareWord(name=BLOCKWISE, aspect=Aspect.RECIPE, changes={"recipe": BLOCKWISE},
         synonyms=("block-scaling", "fp8-blockwise", "float8-blockwise", "subchannel", "fp8-sc", "deepgemm")),
    SoftwareWord(name=ROWWISE, aspect=Aspect.RECIPE, changes={"recipe": ROWWISE},
         synonyms=("row-scaling", "fp8-rowwise", "float8-rowwise", "axiswise", "per-channel", "rowwise-with-gw-hp")),
    SoftwareWord(name=MXFP8, aspect=Aspect.RECIPE, changes={"recipe": MXFP8},
         synonyms=("fp8-mx", "mx", "mxfp8-cublas", "mxfp8-cublas-rceil", "mxfp8-emulated")),
    SoftwareWord(name=NVFP4, aspect=Aspect.RECIPE, changes={"recipe": NVFP4}, synonyms=("fp4",)),
    SoftwareWord(name="fp32-gradients", aspect=Aspect.GRADIENT_DTYPE, changes={"gradient_bytes": 4, "reduced_bytes": 4},
         synonyms=("grad-reduce-in-fp32", "accumulate-allreduce-grads-in-fp32")),
    SoftwareWord(name="bf16-gradients", aspect=Aspect.GRADIENT_DTYPE, changes={"gradient_bytes": 2, "reduced_bytes": 2},
         synonyms=("grad-reduce-in-bf16",)),
    SoftwareWord(name="bf16-reduced-gradients", aspect=Aspect.GRADIENT_DTYPE,
         changes={"gradient_bytes": 4, "reduced_bytes": 2}),
    SoftwareWord(name="fp8-gather", aspect=Aspect.GATHER_DTYPE, changes={"gathered_bytes": 1},
         synonyms=("fp8-param-gather", "fp8-param", "float8-all-gather", "fp8-all-gather",
                   "enable-fsdp-float8-all-gather")),
    SoftwareWord(name="bf16-gather", aspect=Aspect.GATHER_DTYPE, changes={"gathered_bytes": 2},
         synonyms=("bf16-all-gather", "bfloat16-all-gather")),
    SoftwareWord(name="zero-0", aspect=Aspect.SHARDING, sharding=Sharding.NOTHING, synonyms=("ddp", "no-sharding")),
    SoftwareWord(name="zero-1", aspect=Aspect.SHARDING, sharding=Sharding.OPTIMIZER,
         synonyms=("distopt", "distributed-optimizer", "use-distributed-optimizer")),
    SoftwareWord(name="zero-2", aspect=Aspect.SHARDING, sharding=Sharding.GRADIENTS),
    SoftwareWord(name="zero-3", aspect=Aspect.SHARDING, sharding=Sharding.PARAMETERS,
         synonyms=("fsdp", "fsdp1", "fsdp2", "hsdp", "use-torch-fsdp2", "use-megatron-fsdp")),
    SoftwareWord(name="data-outermost", aspect=Aspect.PLACEMENT, data_outermost=True,
         synonyms=("tp-pp-dp-mapping", "use-tp-pp-dp-mapping")),
    SoftwareWord(name="transformer-engine", aspect=Aspect.BUNDLE,
         changes={"fused_attention": True, "attention_slowdown": 1.0, "fused_elementwise": True},
         synonyms=("te", "nvte")),
    SoftwareWord(name="megatron-core", aspect=Aspect.BUNDLE,
         changes={"fused_attention": True, "attention_slowdown": 1.0, "fused_elementwise": True, "fused_loss": True},
         synonyms=("mcore",)),
    SoftwareWord(name="flex-dispatcher", aspect=Aspect.BUNDLE, changes={"sends_tokens_once": True}),
    SoftwareWord(name="not-priced", aspect=Aspect.NOTHING,
         synonyms=("defer-embedding-wgrad-compute", "delay-wgrad-compute", "align-param-gather", "tp-comm-overlap-cfg",
                   "moe-shared-expert-overlap", "overlap-p2p-communication-warmup-flush", "mc-tp-overlap-ag",
                   "mc-tp-overlap-rs", "gmm", "grouped-gemm", "moe-grouped-gemm", "liger", "precompute-scale",
                   "precompute-float8-dynamic-scale-for-fsdp")),
    SoftwareWord(name="said-elsewhere", aspect=Aspect.NOTHING,
         synonyms=("tp", "pp", "cp", "ep", "dp", "vpp", "1d", "2d", "3d", "4d", "vanilla-tp", "sequence-parallel",
                   "sp", "1f1b", "interleaved", "interleaved-1f1b", "float8", "fp8", "bf16", "bfloat16", "fp16",
                   "fp32", "none", "and", "with")),
)  # fmt: skip
"""All words; of an aspect, the first that says most of what software does is its name for that."""


_ENDINGS = {Aspect.ATTENTION: "attention", Aspect.ELEMENTWISE: "elementwise", Aspect.GRADIENT_DTYPE: "gradients"}
"""What names of words end in that their options need not say."""


def normal(text: str) -> str:
    """Return a word as words are compared: its letters and digits.

    >>> normal("Async-TP") == normal("async_tp") == normal("AsyncTP")
    True
    """
    return "".join(letter for letter in text.lower() if letter.isalnum())


@cache
def known_words() -> Mapping[str, SoftwareWord]:
    """Return every word by itself and its synonyms, as `normal` has them."""
    return {normal(name): word for word in WORDS for name in (word.name, *word.synonyms)}


def short_name(word: SoftwareWord) -> str:
    """Return what an option about the word's aspect alone calls it, such as ``fused`` for ``fused-attention``."""
    return word.name.removesuffix(f"-{_ENDINGS.get(word.aspect, '')}")


def word_about(aspect: Aspect, text: str) -> SoftwareWord | None:
    """Return the word about one thing that a text is, by any of its names; None where it is none."""
    names = (text, f"{text}-{_ENDINGS.get(aspect, '')}")
    known = (known_words().get(normal(name)) for name in names)
    return next((word for word in known if word is not None and word.aspect is aspect), None)


def spellings() -> tuple[str, ...]:
    """Return every word and synonym, as people write them."""
    return tuple(name for word in WORDS for name in (word.name, *word.synonyms))


def words_about(aspect: Aspect) -> tuple[SoftwareWord, ...]:
    """Return the words about one thing."""
    return tuple(word for word in WORDS if word.aspect is aspect)


def words_of(software: Software) -> tuple[SoftwareWord, ...]:
    """Return what software does in words, one for each aspect that it settles."""
    agreeing: dict[Aspect, SoftwareWord] = {}
    for word in WORDS:
        settles = word.changes and word.aspect is not Aspect.BUNDLE
        if settles and all(getattr(software, name) == value for name, value in word.changes.items()):
            known = agreeing.setdefault(word.aspect, word)
            if len(word.changes) > len(known.changes):  # it says more: which fused attention
                agreeing[word.aspect] = word
    return tuple(agreeing.values())
