"""A plan as the lists of a MindFormers configuration.

MindFormers counts layers per cell as ``num_layers // cells + offset``, and its recompute lists are cumulative: a count
says how many FIRST layers of a cell are under it, ``select_recompute`` and ``select_comm_recompute`` include the fully
recomputed ones, and a layer in both is under both. A cell can therefore not hold layers under select alone beside
layers under comm alone. [SAPP guide, Step 5]
"""

from collections.abc import Mapping

from evenflow.model import BOTH, COMM, FULL, SELECT, Cells, Plan


def offsets(plan: Plan) -> Cells:
    """Return the layers of every cell ``[chunk][rank]`` beyond ``num_layers // cells``; they sum to the remainder."""
    per_cell = plan.num_layers // (plan.num_ranks * plan.num_chunks)
    return tuple(tuple(count - per_cell for count in row) for row in plan.layers)


def mindformers_lists(plan: Plan) -> Mapping[str, Cells]:
    """Return `offset` and the cumulative recompute lists, ``[chunk][rank]``, by the name of their key.

    Only a plan of the four kinds whose cells keep apart select and comm can be said with them, as those of
    `evenflow.model.SELECT_OR_COMM` do; whether MindFormers can run a plan is said by `evenflow.targets`.
    """

    def total(*kinds: str) -> Cells:
        return tuple(
            tuple(sum(plan.count(kind, chunk, rank) for kind in kinds) for rank in range(plan.num_ranks))
            for chunk in range(plan.num_chunks)
        )

    return {
        "offset": offsets(plan),
        "recompute": total(FULL),
        "select_recompute": total(SELECT, BOTH, FULL),
        "select_comm_recompute": total(COMM, BOTH, FULL),
    }
