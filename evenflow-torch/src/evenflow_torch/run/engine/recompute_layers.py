"""Layers that recompute as planned, whole or by named parts, or whose activations go to the host instead.

Recomputation runs under torch.utils.checkpoint.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import FULL, NONE, OFFLOAD, RECOMPUTE_PARTS, SET_JOINT, Plan, ordered_kinds, segment_length
from evenflow_torch.models.checkpointing import Patterns, names_in, names_of_kind, recomputed_modules, under_checkpoint
from evenflow_torch.models.parts import Part
from evenflow_torch.run.engine.offload import Offload

_ON_HOST = f"+{OFFLOAD}"
_FULL_ON_HOST = f"{FULL}{_ON_HOST}"


def kinds_of_cell(plan: Plan, chunk: int, rank: int) -> list[str]:
    """Return the recompute kind of each layer of a cell, strongest first, so that the first layers recompute.

    >>> plan = Plan(schedule="1f1b", num_microbatches=1, layers=((4,),), recompute={"select": ((1,),), "full": ((2,),)})
    >>> kinds_of_cell(plan, 0, 0)
    ['full', 'full', 'select', 'none']
    """
    kinds = ordered_kinds({*plan.recompute, NONE})
    return [kind for kind in kinds for _ in range(plan.count(kind, chunk, rank))]


def is_on_host(kind: str) -> bool:
    """Return whether what a layer keeps under a kind waits on the host."""
    return kind == OFFLOAD or kind.endswith(_ON_HOST)


def forward_of(
    part: Part,
    kind: str,
    patterns: Patterns = RECOMPUTE_PARTS,
    inside: Callable[[], AbstractContextManager[None]] = nullcontext,
    offload: Offload | None = None,
) -> Callable[..., Any]:
    """Return the forward of `part` under a recompute kind; sub-modules that recompute are changed in place.

    The second forward runs in the context that `inside` gives; layers of one stage that offload share an `offload`.

    Raises:
        InputError: no sub-module of the part belongs to a kind that has patterns.
    """
    if kind == NONE or segment_length(kind) is not None:  # segments run again together
        return part.module
    of_host = offload or Offload()
    if kind == OFFLOAD:
        return of_host.forward_of(part.module)
    options = inside_again(inside)

    def again(forward: Callable[..., Any]) -> Callable[..., Any]:
        return under_checkpoint(forward, **options)

    if kind == FULL:
        return again(part.module)
    if kind == _FULL_ON_HOST:
        return of_host.recomputed(part.module, **options)
    _check_kind(part, _on_device(kind), patterns)
    for module in recomputed_modules(part.module, _on_device(kind), patterns):
        module.forward = again(module.forward)
    return part.module if _on_device(kind) == kind else of_host.forward_of(part.module)


def inside_again(inside: Callable[[], AbstractContextManager[None]]) -> dict[str, Any]:
    """Return the options of `checkpoint` with which the second forward runs in the context that `inside` gives."""
    return {"context_fn": lambda: (nullcontext(), _Anew(inside))}


class _Anew(AbstractContextManager[None]):
    """A context that can be entered again: backwards that are checked compute the same forward a third time."""

    def __init__(self, inside: Callable[[], AbstractContextManager[None]]) -> None:
        self._inside = inside
        self._entered: list[AbstractContextManager[None]] = []

    def __enter__(self) -> None:
        self._entered.append(self._inside())
        self._entered[-1].__enter__()

    def __exit__(self, *raised: Any) -> bool | None:
        return self._entered.pop().__exit__(*raised)


def _on_device(kind: str) -> str:
    """Return the kind without that what it keeps waits on the host."""
    return kind.removesuffix(_ON_HOST)


def check_kinds(plan: Plan, layers: Sequence[Part], patterns: Patterns = RECOMPUTE_PARTS) -> None:
    """Raise InputError for a kind that some layer has no sub-modules for, before any work.

    Of a set of names each must be of a module of some layer; one that has none of them computes nothing again.
    """
    for kind in plan.used_kinds:
        if kind in (FULL, OFFLOAD, _FULL_ON_HOST) or segment_length(kind) is not None:
            continue
        if _on_device(kind) not in patterns:
            _check_set(_on_device(kind), layers, patterns)
            continue
        for part in layers:
            _check_kind(part, _on_device(kind), patterns)


def _check_set(kind: str, layers: Sequence[Part], patterns: Patterns) -> None:
    names = {name for part in layers for name in names_in(part.module) if name}
    unknown = [name for name in kind.split(SET_JOINT) if name not in names]
    if unknown:
        kinds = [name for name in ordered_kinds({FULL, *patterns}) if name != NONE]
        rule = _(
            "must be a kind that can run ({names}), or sub-modules that layers have, joined with +: none has {unknown}",
            names=", ".join(kinds),
            unknown=", ".join(unknown),
        )
        raise InputError(value=kind, rule=rule, place=_("plan, recompute"), remedy=_remedy())


def _check_kind(part: Part, kind: str, patterns: Patterns) -> None:
    if kind in patterns and not names_of_kind(part.module, kind, patterns):
        raise InputError(
            value=kind,
            rule=_(
                "must have sub-modules for its kinds in every layer: {name} lacks {names}",
                name=part.name,
                names=", ".join(patterns[kind]),
            ),
            place=_("plan, recompute"),
            remedy=_remedy(),
        )


def _remedy() -> str:
    return _("say which sub-modules the kind runs again: recompute_modules={...}")
