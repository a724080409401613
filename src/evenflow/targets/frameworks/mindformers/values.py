"""What MindFormers can run of a plan, and a plan as the values of its training YAML."""

from collections.abc import Mapping
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.export.mindformers import mindformers_lists
from evenflow.language import _
from evenflow.model import (
    BOTH,
    COMM,
    FULL,
    OFFLOAD,
    SELECT,
    Abilities,
    Empty,
    Groups,
    Plan,
    Recomputation,
    Scope,
    SizeRule,
    moved_kind,
)
from evenflow.targets.frameworks.mindformers.module_sets import APART, KINDS, has_sets, patterns_of
from evenflow.targets.frameworks.mindformers.swap import swap_values
from evenflow.targets.refusal import refusal

TITLE = "MindFormers"
SCHEDULES = ("1f1b", "interleaved", "interleaved-less-memory", "f-then-b")
"""Schedule families that MindFormers runs in the same order."""

_COUNTED = (BOTH, SELECT, COMM)
_KINDS = (FULL, *_COUNTED, OFFLOAD, *map(moved_kind, _COUNTED))


def abilities() -> Abilities:
    """Return what MindFormers can run. [MindFormers: LayerSetting, base_trainer; MindSpore: its pipeline splitting]"""
    return Abilities(
        schedules=SCHEDULES,
        recomputation=(
            Recomputation(scope=Scope.LAYERS, kinds=_KINDS, apart=((SELECT, COMM),)),
            Recomputation(scope=Scope.LAYERS, kinds=KINDS, apart=APART),
        ),
        empty=Empty.ENDS,
        groups=Groups.USUAL,
        splits_sequences=True,
        sizes=(
            SizeRule(
                text=lambda sizes: _("must be at least the number of ranks ({num_ranks})", num_ranks=sizes.num_ranks),
                holds=lambda sizes, schedule: sizes.num_microbatches >= sizes.num_ranks,
            ),
            SizeRule(
                text=_("must be a 1F1B order with split sequences"),
                holds=lambda sizes, schedule: sizes.sequence_splits == 1 or schedule != "f-then-b",
                place="schedule",
            ),
        ),
    )


def why_not(plan: Plan) -> InputError | None:
    """Return why MindFormers cannot run `plan`; None where it can."""
    return refusal(plan, abilities(), title=TITLE)


def check_writable(plan: Plan) -> None:
    """Refuse a plan that the keys of MindFormers cannot say.

    Some that they can say are refused later, when the training starts: `why_not` says so.

    Raises:
        InputError: another schedule or group size, an order of its own, a user-named recompute kind, `full` with split
            sequences, a cell with select-only beside comm-only layers, or with sets of modules neither of which is in
            the other.
    """
    unwritable = refusal(plan, replace(abilities(), empty=Empty.ANY, sizes=()), title=TITLE)
    if unwritable is not None:
        raise unwritable
    if has_sets(plan) and plan.sequence_splits > 1:
        rule = _("must be 1 with sets of modules: they are those of newer models, which do not split sequences")
        raise InputError(value=plan.sequence_splits, rule=rule, place="sequence_splits")


def training_values(plan: Plan) -> Mapping[str, object]:
    """Return everything that `plan` decides in a MindFormers training YAML, by dotted key.

    Lists always have one row per chunk: MindFormers deals the counts of a flat list out over the chunks in turn.
    Without ``pipeline_interleave`` it runs one chunk, and with it ``pipeline_scheduler`` must be there too. What has no
    key is in `environment`.

    Raises:
        InputError: as `check_writable` does. Whether the training starts with these values is said by `why_not`.
    """
    check_writable(plan)
    lists = {name: [list(row) for row in table] for name, table in mindformers_lists(plan).items()}
    if plan.sequence_splits > 1:
        scheduler = "seqvpp" if plan.num_chunks > 1 else "seqpipe"
    else:
        scheduler = "gpipe" if plan.schedule == "f-then-b" else "1f1b"
    return {
        "model.model_config.offset": lists["offset"],
        "model.model_config.pp_interleave_num": plan.num_chunks,
        # Sequence splits are refused beside any list here, even one of zeros.
        "recompute_config.recompute": False if plan.sequence_splits > 1 else lists["recompute"],
        "recompute_config.select_recompute": patterns_of(plan) if has_sets(plan) else lists["select_recompute"],
        "recompute_config.select_comm_recompute": lists["select_comm_recompute"],
        "parallel_config.pipeline_stage": plan.num_ranks,
        "parallel_config.micro_batch_num": plan.num_microbatches,
        "parallel_config.seq_split_num": plan.sequence_splits,
        # Every scheduler but 1f1b needs this, also with one chunk.
        "parallel.pipeline_config.pipeline_interleave": plan.num_chunks > 1 or scheduler != "1f1b",
        "parallel.pipeline_config.pipeline_scheduler": scheduler,
        **swap_values(plan),
    }


def environment(plan: Plan) -> Mapping[str, str]:
    """Return the environment variables without which MindFormers runs the values of `plan` in another order."""
    if plan.schedule == "interleaved-less-memory" and plan.num_chunks > 1:
        return {"ENABLE_LESS_MEM_VPP": "1"}
    return {}


def without_environment(plan: Plan) -> Plan:
    """Return what MindFormers runs where the variables of `environment` are not set."""
    return replace(plan, schedule="interleaved") if environment(plan) else plan
