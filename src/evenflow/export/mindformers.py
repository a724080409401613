"""A plan as the lines of a MindFormers configuration.

MindFormers counts layers per cell as ``num_layers // cells + offset``, and its recompute lists are cumulative: a count
says how many FIRST layers of a cell are under it, ``select_recompute`` and ``select_comm_recompute`` include the fully
recomputed ones, and a layer in both is under both. A cell can therefore not hold layers under select alone beside
layers under comm alone. [document 001, Step 5]
"""

from collections.abc import Mapping

from evenflow.errors import InputError
from evenflow.model import BOTH, COMM, FULL, SELECT, Cells, Plan
from evenflow.model.recompute import KNOWN_KINDS


def offsets(plan: Plan) -> Cells:
    """Layers of every cell ``[chunk][rank]`` beyond ``num_layers // cells``; they sum to the remainder."""
    each = plan.num_layers // (plan.num_ranks * plan.num_chunks)
    return tuple(tuple(count - each for count in row) for row in plan.layers)


def mindformers_lists(plan: Plan) -> Mapping[str, Cells]:
    """`offset` and the cumulative recompute lists, ``[chunk][rank]``, by the name of their key.

    Raises:
        InputError: a user-named recompute kind, or a cell with select-only beside comm-only layers.
    """
    _check_expressible(plan)

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


def format_mindformers(plan: Plan) -> str:
    """The block to paste, a list of one row a chunk on each line. Raises `InputError` as `mindformers_lists` does."""
    lines = ["To put in yaml configuration:"]
    lines += [f"  {name}: {[list(row) for row in table]}" for name, table in mindformers_lists(plan).items()]
    lines.append(f"  pp_interleave_num: {plan.num_chunks}")
    return "\n".join(lines) + "\n"


def _check_expressible(plan: Plan) -> None:
    for kind, table in plan.recompute.items():
        if kind not in KNOWN_KINDS and any(map(any, table)):
            raise InputError(
                value=kind,
                rule=f"MindFormers has only the recompute kinds {', '.join(KNOWN_KINDS)}",
                place="recompute",
                remedy="plan without this kind, or write the plan for another framework",
            )
    for chunk in range(plan.num_chunks):
        for rank in range(plan.num_ranks):
            select, comm = plan.count(SELECT, chunk, rank), plan.count(COMM, chunk, rank)
            if select and comm:
                raise InputError(
                    value={SELECT: select, COMM: comm},
                    rule="MindFormers cannot have select-only beside comm-only layers in one cell",
                    place=f"recompute, chunk {chunk}, rank {rank}",
                    remedy="plan for MindFormers, or write the plan for another framework",
                )
