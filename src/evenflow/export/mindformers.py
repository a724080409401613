"""A plan as the values of a MindFormers configuration, and what MindFormers does not run.

MindFormers counts layers per cell as ``num_layers // cells + offset``, and its recompute lists are cumulative: a count
says how many FIRST layers of a cell are under it, ``select_recompute`` and ``select_comm_recompute`` include the fully
recomputed ones, and a layer in both is under both. A cell can therefore not hold layers under select alone beside
layers under comm alone. [SAPP guide, Step 5]
"""

from collections.abc import Mapping
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import BOTH, COMM, FULL, KNOWN_KINDS, SELECT, Cells, Plan
from evenflow.schedule import usual_group_size

SCHEDULES = ("1f1b", "interleaved", "interleaved-less-memory", "f-then-b")
"""Schedule families that MindFormers runs in the same order."""


def offsets(plan: Plan) -> Cells:
    """Return the layers of every cell ``[chunk][rank]`` beyond ``num_layers // cells``; they sum to the remainder."""
    each = plan.num_layers // (plan.num_ranks * plan.num_chunks)
    return tuple(tuple(count - each for count in row) for row in plan.layers)


def mindformers_lists(plan: Plan) -> Mapping[str, Cells]:
    """Return `offset` and the cumulative recompute lists, ``[chunk][rank]``, by the name of their key.

    Raises:
        InputError: any schedule but 1F1B, interleaved and F-then-B; groups of another size than the usual one; a
            user-named recompute kind; a cell with select-only beside comm-only layers.
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


def training_values(plan: Plan) -> Mapping[str, object]:
    """Return everything that `plan` decides in a MindFormers training YAML, by dotted key.

    Lists always have one row per chunk: MindFormers deals the counts of a flat list out over the chunks in turn.
    Without ``pipeline_interleave`` it runs one chunk, and with it ``pipeline_scheduler`` must be there too. What has no
    key is in `environment`.

    Raises:
        InputError: as `mindformers_lists` does. Whether the training starts with these values is said by `refusal`.
    """
    lists = {name: [list(row) for row in table] for name, table in mindformers_lists(plan).items()}
    if plan.sequence_splits > 1:
        scheduler = "seqvpp" if plan.num_chunks > 1 else "seqpipe"
    else:
        scheduler = "gpipe" if plan.schedule == "f-then-b" else "1f1b"
    # Sequence splits are refused beside any list here, even one of zeros.
    no_list = plan.sequence_splits > 1 and not any(map(any, lists["recompute"]))
    return {
        "model.model_config.offset": lists["offset"],
        "model.model_config.pp_interleave_num": plan.num_chunks,
        "recompute_config.recompute": False if no_list else lists["recompute"],
        "recompute_config.select_recompute": lists["select_recompute"],
        "recompute_config.select_comm_recompute": lists["select_comm_recompute"],
        "parallel_config.pipeline_stage": plan.num_ranks,
        "parallel_config.micro_batch_num": plan.num_microbatches,
        "parallel_config.seq_split_num": plan.sequence_splits,
        # Every scheduler but 1f1b needs this, also with one chunk.
        "parallel.pipeline_config.pipeline_interleave": plan.num_chunks > 1 or scheduler != "1f1b",
        "parallel.pipeline_config.pipeline_scheduler": scheduler,
    }


def environment(plan: Plan) -> Mapping[str, str]:
    """Return the environment variables without which MindFormers runs the values of `plan` in another order."""
    if plan.schedule == "interleaved-less-memory" and plan.num_chunks > 1:
        return {"ENABLE_LESS_MEM_VPP": "1"}
    return {}


def without_environment(plan: Plan) -> Plan:
    """Return what MindFormers runs where the variables of `environment` are not set."""
    return replace(plan, schedule="interleaved") if environment(plan) else plan


def refusal(plan: Plan) -> InputError | None:
    """Return why MindFormers refuses the values of `plan` when the training starts; None where it does not.

    It refuses fewer microbatches than ranks, a stage without layers between the first and the last, and split
    sequences that recompute fully or run F-then-B.
    """
    if plan.num_microbatches < plan.num_ranks:
        return InputError(
            value=plan.num_microbatches,
            rule=_("must be at least the number of ranks ({num_ranks}) for MindFormers", num_ranks=plan.num_ranks),
            place="microbatches",
        )
    stages = [count for row in plan.layers for count in row]
    if 0 in stages[1:-1]:
        chunk, rank = divmod(stages.index(0, 1), plan.num_ranks)
        return InputError(
            value=0,
            rule=_("must be above zero for MindFormers, where only the first and the last stage may be empty"),
            place=_("layers, chunk {chunk}, rank {rank}", chunk=chunk, rank=rank),
        )
    if plan.sequence_splits > 1 and any(map(any, plan.recompute.get(FULL, ()))):
        rule = _("must not be full for MindFormers where sequences are split")
        return InputError(value=None, rule=rule, place="recompute")
    if plan.sequence_splits > 1 and plan.schedule == "f-then-b":
        rule = _("must be a 1F1B order for MindFormers where sequences are split")
        return InputError(value=plan.schedule, rule=rule, place="schedule")
    return None


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
    usual = usual_group_size(plan.sizes)
    if plan.group_size not in (None, usual):
        raise InputError(
            value=plan.group_size,
            rule=_("must be {usual} for MindFormers, which has no key for another", usual=usual),
            place=_("group size"),
            remedy=_("plan without a group size, or write the plan for another framework"),
        )
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
