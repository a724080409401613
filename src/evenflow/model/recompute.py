"""Recompute kinds: the activations that a layer drops after its forward and computes again in its backward.

    kind     dropped and computed again          kept as activation
    none     nothing                             everything
    comm     the results of communication        the rest
    select   chosen cheap operators              the rest
    both     select and comm together            the rest
    full     the whole layer                     its input
    offload  nothing: the host's memory keeps    nothing
             everything until the backward

A user may name further kinds in a layer file; they take their place after the known ones. Names of modules joined with
``+`` are a kind that computes these again.
"""

NONE = "none"
COMM = "comm"
SELECT = "select"
BOTH = "both"
FULL = "full"
OFFLOAD = "offload"

KNOWN_KINDS = (FULL, BOTH, SELECT, COMM)
"""The kinds of the SAPP guide, strongest first: the order of the layers of a cell (see `Plan`)."""


SET_JOINT = "+"
"""Between the names of a kind that is a set."""


def is_kind_name(text: str) -> bool:
    """Return whether a kind may have this name: identifiers, or paths of modules, joined with ``+``.

    >>> [is_kind_name(text) for text in ("norms", "mlp.act+mlp.0", "mlp+", "a b", "mlp..act")]
    [True, True, False, False, False]
    """
    pieces = (piece for name in text.split(SET_JOINT) for piece in name.split("."))
    return all(piece.isidentifier() or piece.isdecimal() for piece in pieces)


def moves(kind: str) -> bool:
    """Return whether layers keep something on the host under `kind`.

    >>> [moves(kind) for kind in ("full", "offload", "select+offload", "layernorm+offload_core_attn")]
    [False, True, True, True]
    """
    return any(name == OFFLOAD or name.startswith(f"{OFFLOAD}_") for name in kind.split(SET_JOINT))


def ordered_kinds(names: set[str]) -> tuple[str, ...]:
    """Return `names` in the order in which their layers stand in a cell: full, both, select, comm, others, none.

    Of the others those of most modules come first, so that a set stands before what is in it, and first layers move
    more to the host.
    """
    known = [kind for kind in KNOWN_KINDS if kind in names]

    def place(name: str) -> tuple[int, str]:
        return -name.removesuffix(f"{SET_JOINT}{OFFLOAD}").count(SET_JOINT), name

    others = sorted(names - set(KNOWN_KINDS) - {NONE}, key=place)
    return (*known, *others, NONE)
