"""Recompute kinds: the activations that a layer drops after its forward and computes again in its backward.

    kind     dropped and computed again          kept as activation
    none     nothing                             everything
    comm     the results of communication        the rest
    select   chosen cheap operators              the rest
    both     select and comm together            the rest
    full     the whole layer                     its input
    offload  nothing: the host's memory keeps    nothing
             everything until the backward

A user may name further kinds in a layer file; they take their place after the known ones.
"""

NONE = "none"
COMM = "comm"
SELECT = "select"
BOTH = "both"
FULL = "full"
OFFLOAD = "offload"

KNOWN_KINDS = (FULL, BOTH, SELECT, COMM)
"""The kinds of the SAPP guide, strongest first: the order of the layers of a cell (see `Plan`)."""


def ordered_kinds(names: set[str]) -> tuple[str, ...]:
    """Return `names` in the order in which their layers stand in a cell: full, both, select, comm, others, none.

    Of sets of modules those come first that have more behind the same ones, as first layers move more to the host.
    """
    known = [kind for kind in KNOWN_KINDS if kind in names]
    others = sorted(names - set(KNOWN_KINDS) - {NONE}, key=lambda name: f"{name}~")
    return (*known, *others, NONE)
