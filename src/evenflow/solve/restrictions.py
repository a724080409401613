"""What plans have in common that a bound is for: a claim names everything that it holds under."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from evenflow.language import _
from evenflow.model import Request, Sizes
from evenflow.schedule import FAMILIES, different_group_sizes, usual_group_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Restrictions:
    """What was decided before the search, though other plans could have it otherwise."""

    fixed_layers: bool = False
    """Whether the caller decided the layers of every cell."""
    full_cells: bool = False
    """Whether every cell was to hold a layer."""
    kept_apart: tuple[str, str] | None = None
    """Two recompute kinds that no cell was to mix."""
    moves_alike: bool = False
    """Whether plans move the same to the host in all layers, though layers can differ."""
    group_sizes: tuple[int, ...] = ()
    """Microbatches of a group, where others make other orders of the schedule; empty where all were looked at."""
    copies_timed: bool = False
    """Whether layers may move to the host, and copies go as early and as late as the link of the network says."""

    @classmethod
    def of(cls, request: Request, *, schedule: str) -> Self:
        """Return those of the plans of a request under `schedule`; an order that is no family's has no groups."""
        groups: tuple[int, ...] = ()
        if schedule in FAMILIES and FAMILIES[schedule].has_groups:
            groups = only_group_sizes(
                (request.group_size,), different_group_sizes(schedule, request.sizes), request.sizes
            )
        network = request.network
        return cls(
            fixed_layers=request.layers is not None,
            full_cells=request.full_cells,
            kept_apart=request.kept_apart,
            group_sizes=groups,
            copies_timed=network.host_link is not None and network.offloads,
        )

    @property
    def text(self) -> str:
        """The restrictions as words behind "plan"; empty without any."""
        parts = [_("these layers") if self.fixed_layers else _("a layer in every cell") if self.full_cells else ""]
        if self.kept_apart is not None:
            first, second = self.kept_apart
            parts.append(_("{one} and {other} in different cells", one=first, other=second))
        elif self.moves_alike:
            parts.append(_("the same modules moved in all layers"))
        if self.group_sizes:
            parts.append(_("groups of {sizes} microbatches", sizes=_listed(self.group_sizes)))
        if self.copies_timed:
            parts.append(_("copies timed as here"))
        parts = [part for part in parts if part]
        if len(parts) < 2:
            return _(" with {what}", what=parts[0]) if parts else ""
        return _(" with {layers}, and {apart}", layers=", ".join(parts[:-1]), apart=parts[-1])


def only_group_sizes(tried: Iterable[int | None], different: Iterable[int | None], sizes: Sizes) -> tuple[int, ...]:
    """Return the `tried` group sizes (None: the usual one); empty where these are all that make `different` orders."""
    own = set(tried)
    if set(different) <= own:
        return ()
    usual = usual_group_size(sizes)
    return tuple(sorted({size or usual for size in own}))


def _listed(sizes: Sequence[int]) -> str:
    if len(sizes) == 1:
        return str(sizes[0])
    return _("{first} or {last}", first=", ".join(map(str, sizes[:-1])), last=sizes[-1])
