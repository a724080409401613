"""Submodules of a layer that each recompute kind drops and computes again, by name: pure text, no framework.

    kind     submodules                                      of a Llama layer
    none     -                                               -
    comm     every norm, at any depth                        input_layernorm, post_attention_layernorm
    select   the attention block, projections included       self_attn
    both     select and comm together                        all three
    full     the layer itself, whose name is empty           the layer

`select` is the attention block, the part whose activations grow fastest with the sequence [Korthikanti et al.,
arXiv:2205.05198, §5]. `comm` is the norms, as MindFormers chooses them: with sequence parallelism it is a norm's result
that the ranks gather, so computing a norm again repeats the gather instead of keeping what it gave.

A part keeps its inputs, and what comes after it may keep its outputs; everything between is dropped.

A kind that is none of these is a set of submodules by their own names, joined with ``+``: ``input_layernorm+mlp``.
"""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from evenflow.model.recompute import BOTH, COMM, FULL, NONE, SELECT, SET_JOINT

_ATTENTION = ("self_attn", "attn", "self_attention", "attention")
_NORMS = ("*norm", "*norm[0-9]", "ln_[0-9]", "*.ln_[0-9]")

RECOMPUTE_PARTS: Mapping[str, tuple[str, ...]] = {
    NONE: (),
    COMM: _NORMS,
    SELECT: _ATTENTION,
    BOTH: (*_ATTENTION, *_NORMS),
    FULL: ("",),
}
"""Glob patterns of a submodule's name within its layer, such as ``self_attn.q_proj``; a star also crosses dots."""


def recomputed_parts(
    kind: str, submodules: Iterable[str], patterns: Mapping[str, Sequence[str]] = RECOMPUTE_PARTS
) -> tuple[str, ...]:
    """Return the names among `submodules` that `kind` recomputes, in their order; none if the layer does not offer it.

    `submodules` are the names of ``layer.named_modules()``, the layer itself as the empty name. A part inside another
    part is left out: it is recomputed with the outer one. `patterns` are those of `RECOMPUTE_PARTS` unless given; a
    kind without any is a set of names.

    >>> recomputed_parts("both", ["", "self_attn", "self_attn.q_norm", "mlp", "input_layernorm"])
    ('self_attn', 'input_layernorm')
    >>> recomputed_parts("mlp+self_attn.q_norm", ["", "self_attn", "self_attn.q_norm", "mlp"])
    ('self_attn.q_norm', 'mlp')
    """
    chosen = patterns[kind] if kind in patterns else kind.split(SET_JOINT)
    matches = [name for name in submodules if any(fnmatchcase(name, pattern) for pattern in chosen)]
    return tuple(name for name in matches if not any(_holds(outer, name) for outer in matches))


def _holds(outer: str, name: str) -> bool:
    """Return whether the submodule `name` is inside `outer`."""
    return name != outer and (outer == "" or name.startswith(outer + "."))
