"""What a stage uses its devices for: most layers alike, a few perhaps differently."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from evenflow.cluster import Submesh
from evenflow.language import _
from evenflow_torch.auto.sharding.mesh_costs import LayerCost
from evenflow_torch.auto.wording.axis_use import SAME, AxisUse, axis_uses
from evenflow_torch.auto.wording.sharding_phrases import axis_places, sharding_words


@dataclass(frozen=True, kw_only=True)
class StageUse:
    """The use of every axis of the logical mesh that a stage's devices form."""

    submesh: Submesh
    mesh: tuple[int, ...]
    uses: tuple[AxisUse, ...]
    """The use of each axis by the layers that have most of the parameters."""
    others: tuple[tuple[str, tuple[AxisUse, ...]], ...] = ()
    """The use of each axis by other layers, each with the module that they are named after."""

    @property
    def words(self) -> str:
        """The sharding in words, such as ``tensor parallel over 8; embed_tokens: data parallel over 8``."""
        text = self.main_words
        for name, other in self.other_words:
            text = _("{words}; {name}: {other}", words=text, name=name, other=other)
        return text

    @property
    def other_words(self) -> tuple[tuple[str, str], ...]:
        """The sharding of other layers in words, each way once, with the module that the first such layer is."""
        names: dict[str, str] = {}
        for name, uses in self.others:
            names.setdefault(sharding_words(uses, self.mesh, self.submesh), name)
        names.pop(self.main_words, None)
        return tuple((name, phrase) for phrase, name in names.items())

    @property
    def main_words(self) -> str:
        """The sharding of most layers in words, without that of the others."""
        return sharding_words(self.uses, self.mesh, self.submesh)

    @property
    def places(self) -> tuple[str, ...]:
        """Where the devices of each axis lie."""
        return axis_places(self.mesh, self.submesh)

    @property
    def is_uniform(self) -> bool:
        """Whether all layers use each axis for the same purpose."""
        whole = [self.uses, *(uses for _name, uses in self.others)]
        axes = [axis for axis, size in enumerate(self.mesh) if size > 1]
        return all(uses[axis] == self.uses[axis] and uses[axis].share >= SAME for uses in whole for axis in axes)


def stage_use(layers: Iterable[tuple[str, int, LayerCost]], mesh: tuple[int, ...], submesh: Submesh) -> StageUse:
    """Return the use of axes by layers in order, given as the name of the last module, the kind and the cost."""
    names: dict[int, str] = {}
    costs: dict[int, LayerCost] = {}
    counts: Counter[int] = Counter()
    for name, kind, cost in layers:
        names.setdefault(kind, name)
        costs[kind] = cost
        counts[kind] += 1
    uses = {kind: axis_uses([(cost, 1)]) for kind, cost in costs.items()}
    sizes: Counter[tuple[AxisUse, ...]] = Counter()
    for kind, cost in costs.items():
        sizes[uses[kind]] += counts[kind] * sum(prod(parameter.shape) for parameter in cost.plan.parameters)
    most = sizes.most_common(1)[0][0]
    return StageUse(
        submesh=submesh,
        mesh=mesh,
        uses=most,
        others=tuple((names[kind], uses[kind]) for kind in costs if uses[kind] != most),
    )
