"""What every stage of a plan spends its time on, and which parameters it has."""

from dataclasses import dataclass, field
from itertools import groupby

from evenflow.model import NONE, Plan
from evenflow.predict.parameters import Parameters
from evenflow.predict.pricing import Spending
from evenflow.predict.step_network import PricedNetwork, PricedPart
from evenflow.simulate import Integers, plan_counts


@dataclass(slots=True)
class StageSum:
    """The parts of one stage together, for one microbatch."""

    passes: Spending = field(default_factory=Spending)
    """Forward and backward."""
    recomputed: Spending = field(default_factory=Spending)
    """What of it is computed again."""
    parameters: Parameters = field(default_factory=Parameters)

    def include(self, part: PricedPart, kind: str, count: int) -> None:
        """Count `count` more equal parts under a recompute kind."""
        self.passes.include(part.forward, count)
        self.passes.include(part.backward[kind], count)
        self.recomputed.include(part.recomputed[kind], count)
        self.parameters += part.parameters.times(count)


def stage_sums(priced: PricedNetwork, plan: Plan, stage_table: Integers) -> list[StageSum]:
    """Return the sums of every stage; within a stage kinds follow each other as in a plan."""
    kinds = priced.network.kinds
    counts = plan_counts(plan, kinds, stage_table)
    sums, layer = [], 0
    for of_stage in counts.tolist():
        total = StageSum()
        for kind, count in zip(kinds, of_stage, strict=True):
            for _same, run in groupby(priced.layers[layer : layer + count], key=id):
                parts = list(run)
                total.include(parts[0], kind, len(parts))
            layer += count
        sums.append(total)
    sums[0].include(priced.head, NONE, 1)
    sums[-1].include(priced.tail, NONE, 1)
    return sums
