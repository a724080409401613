"""A plan as the lines of a MindFormers configuration.

MindFormers counts layers per cell as ``num_layers // cells + offset``, and its recompute lists are cumulative: a count
says how many FIRST layers of a cell are under it, ``select_recompute`` and ``select_comm_recompute`` include the fully
recomputed ones, and a layer in both is under both. A cell can therefore not hold layers under select alone beside
layers under comm alone. [SAPP guide, Step 5]
"""

from collections.abc import Mapping

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import BOTH, COMM, FULL, KNOWN_KINDS, SELECT, Cells, Plan

SCHEDULES = ("1f1b", "interleaved", "interleaved-less-memory", "f-then-b")
"""Schedule families that MindFormers runs in the same order."""


def offsets(plan: Plan) -> Cells:
    """Return the layers of every cell ``[chunk][rank]`` beyond ``num_layers // cells``; they sum to the remainder."""
    each = plan.num_layers // (plan.num_ranks * plan.num_chunks)
    return tuple(tuple(count - each for count in row) for row in plan.layers)


def mindformers_lists(plan: Plan) -> Mapping[str, Cells]:
    """Return `offset` and the cumulative recompute lists, ``[chunk][rank]``, by the name of their key.

    Raises:
        InputError: any schedule but 1F1B, interleaved and F-then-B; a user-named recompute kind; a cell with
            select-only beside comm-only layers.
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
    """Return the block to paste, on each line a list with one row per chunk; raises as `mindformers_lists` does."""
    lines = ["To put in yaml configuration:"]
    lines += [f"  {name}: {[list(row) for row in table]}" for name, table in mindformers_lists(plan).items()]
    lines.append(f"  pp_interleave_num: {plan.num_chunks}")
    return "\n".join(lines) + "\n"


def training_values(plan: Plan) -> Mapping[str, object]:
    """Return everything that `plan` decides in a MindFormers training YAML, by dotted key.

    Lists always have one row per chunk: MindFormers deals the counts of a flat list out over the chunks in turn.
    Without ``pipeline_interleave`` it runs one chunk, and with it ``pipeline_scheduler`` must be there too.
    The less-memory order has no key: it is these values, and the environment variable ENABLE_LESS_MEM_VPP=1.

    Raises:
        InputError: as `mindformers_lists` does; and a stage without layers between the first and the last, fewer
            microbatches than ranks, split sequences that recompute fully or run F-then-B: MindFormers refuses them.
    """
    lists = {name: [list(row) for row in table] for name, table in mindformers_lists(plan).items()}
    _check_accepted(plan)
    if plan.sequence_splits > 1:
        scheduler = "seqvpp" if plan.num_chunks > 1 else "seqpipe"
    else:
        scheduler = "gpipe" if plan.schedule == "f-then-b" else "1f1b"
    return {
        "model.model_config.offset": lists["offset"],
        "model.model_config.pp_interleave_num": plan.num_chunks,
        # Sequence splits are refused beside any list here, even one of zeros.
        "recompute_config.recompute": lists["recompute"] if any(map(any, lists["recompute"])) else False,
        "recompute_config.select_recompute": lists["select_recompute"],
        "recompute_config.select_comm_recompute": lists["select_comm_recompute"],
        "parallel_config.pipeline_stage": plan.num_ranks,
        "parallel_config.micro_batch_num": plan.num_microbatches,
        "parallel_config.seq_split_num": plan.sequence_splits,
        # Every scheduler but 1f1b needs this, also with one chunk.
        "parallel.pipeline_config.pipeline_interleave": plan.num_chunks > 1 or scheduler != "1f1b",
        "parallel.pipeline_config.pipeline_scheduler": scheduler,
    }


def _check_accepted(plan: Plan) -> None:
    """Refuse what MindFormers would refuse when the training starts, or run in another order."""
    if plan.num_microbatches < plan.num_ranks:
        raise InputError(
            value=plan.num_microbatches,
            rule=_("must be at least the number of ranks ({num_ranks}) for MindFormers", num_ranks=plan.num_ranks),
            place="microbatches",
        )
    stages = [count for row in plan.layers for count in row]
    if 0 in stages[1:-1]:
        chunk, rank = divmod(stages.index(0, 1), plan.num_ranks)
        raise InputError(
            value=0,
            rule=_("must be above zero for MindFormers, where only the first and the last stage may be empty"),
            place=_("layers, chunk {chunk}, rank {rank}", chunk=chunk, rank=rank),
        )
    if plan.sequence_splits > 1 and any(map(any, plan.recompute.get(FULL, ()))):
        rule = _("must not be full for MindFormers where sequences are split")
        raise InputError(value=None, rule=rule, place="recompute")
    if plan.sequence_splits > 1 and plan.schedule == "f-then-b":
        rule = _("must be a 1F1B order for MindFormers where sequences are split")
        raise InputError(value=plan.schedule, rule=rule, place="schedule")


def _check_expressible(plan: Plan) -> None:
    if plan.schedule not in SCHEDULES:
        raise InputError(
            value=plan.schedule,
            rule=_("must be one of {names} for MindFormers", names=", ".join(SCHEDULES)),
            place="schedule",
            remedy=_("plan for one of these, or write the plan for another framework"),
        )
    if plan.order:
        rule = _("must be run in its own order for MindFormers")
        raise InputError(value=plan.schedule, rule=rule, place="schedule")
    for kind, table in plan.recompute.items():
        if kind not in KNOWN_KINDS and any(map(any, table)):
            raise InputError(
                value=kind,
                rule=_("must be of the kinds {names} for MindFormers", names=", ".join(KNOWN_KINDS)),
                place="recompute",
                remedy=_("plan without this kind, or write the plan for another framework"),
            )
    for chunk in range(plan.num_chunks):
        for rank in range(plan.num_ranks):
            select, comm = plan.count(SELECT, chunk, rank), plan.count(COMM, chunk, rank)
            if select and comm:
                raise InputError(
                    value={SELECT: select, COMM: comm},
                    rule=_("must not mix select-only and comm-only layers in one cell for MindFormers"),
                    place=_("recompute, chunk {chunk}, rank {rank}", chunk=chunk, rank=rank),
                    remedy=_("plan for MindFormers, or write the plan for another framework"),
                )
