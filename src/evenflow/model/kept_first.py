"""What ranks keep on the device of their first backwards, where every further rank moves less to the host in a step.

Megatron-LM's ``--delta-offload-bytes-across-pp-ranks``: rank r keeps r times as many bytes, once in a step. What a
module of a layer keeps is a group. Through the backwards of the rank in their order, and through each in the order of
the forward, groups stay until they are that many bytes or more; of what is left of a backward, the last
int(n (1 - share)) of its n groups stay as well. The last group of each module name in the first backward that has one
stays in any case, and does not count. [Megatron-LM, `PipelineOffloadManager.post_warmup_callback`]
"""

from collections.abc import Sequence
from itertools import pairwise

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model.moved_share import chain_of, num_moved, with_chain
from evenflow.model.network import Layer, Network

Groups = Sequence[tuple[int, int]]
"""The module of every group, by its place among those that move, and its bytes, in the order of the forward."""


def groups_of(network: Network, kind: str) -> list[Groups]:
    """Return the groups of every layer that may move where all are under `kind`.

    Raises InputError where `network` does not know the modules of `kind` apart.
    """
    chain = chain_of(kind)
    whole = with_chain(network, chain) if kind in network.kinds else None
    if whole is None:
        raise InputError(
            value=kind,
            rule=_("must be a recompute kind of the network, which knows its modules apart"),
            place=_("plan for {name}, moved_share", name=network.name),
        )
    of_run = [(run.count, _groups(run.layer, chain)) for run in whole.runs]
    return [groups for count, groups in of_run for _layer in range(count)]


def _groups(layer: Layer, chain: Sequence[str]) -> Groups:
    moved = [layer.modes[kind].offloaded_bytes for kind in chain]
    return [(module, more - less) for module, (less, more) in enumerate(pairwise(moved)) if more > less]


def moved_of_first(backwards: Sequence[Groups], *, share: float, kept_bytes: int) -> tuple[int, ...]:
    """Return what still moves of each of a rank's first backwards, in bytes, up to the last of which more stays.

    `backwards` has the groups of all of its backwards, in their order; `kept_bytes` is what the rank keeps.

    >>> moved_of_first([[(0, 5), (0, 5), (0, 5)]] * 3, share=1, kept_bytes=17)
    (0, 5)
    >>> moved_of_first([[(0, 5), (0, 5), (0, 5)]] * 3, share=1, kept_bytes=0)
    ()
    """
    stays = _always_kept(backwards) if kept_bytes else set()
    moved = []
    for place, groups in enumerate(backwards):
        if kept_bytes <= 0:
            break
        movable = []
        for number, (_module, size) in enumerate(groups):
            if (place, number) in stays:
                continue
            if kept_bytes > 0:
                kept_bytes -= size
            else:
                movable.append(size)
        moved.append(sum(movable[: num_moved(len(movable), share)]))
    return tuple(moved)


def _always_kept(backwards: Sequence[Groups]) -> set[tuple[int, int]]:
    """Return the groups, by backward and place in it, that stay without counting."""
    lasts: dict[int, tuple[int, int]] = {}
    for place in range(len(backwards) - 1, -1, -1):
        lasts |= {module: (place, number) for number, (module, _size) in enumerate(backwards[place])}
    most = max((len({module for module, _size in groups}) for groups in backwards), default=0)
    return set(list(lasts.values())[:most])
