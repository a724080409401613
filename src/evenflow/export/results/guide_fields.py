"""The dry runs that determine the memory of every part."""

from evenflow.export.mindformers import mindformers_lists
from evenflow.model import KNOWN_KINDS, Plan
from evenflow.profiles.memory.dry_run_guide import Guide, measured_ranks


def guide_fields(guide: Guide) -> dict[str, object]:
    """Return how exact the memory fit will be, and the dry runs to do, each as a plan file."""
    return {
        "ranks": guide.num_ranks,
        "num_layers": guide.rounds[0].num_layers,
        "recompute_kinds": [kind for kind in KNOWN_KINDS if kind in guide.unknowns],
        "condition_number": guide.condition_number,
        "standard_errors": guide.standard_errors,
        "rounds": [
            {**_round(plan), "measured_ranks": list(measured_ranks(guide.num_ranks, round_index=index))}
            for index, plan in enumerate(guide.rounds)
        ],
    }


def _round(plan: Plan) -> dict[str, object]:
    return {
        "ranks": plan.num_ranks,
        "chunks": plan.num_chunks,
        "microbatches": plan.num_microbatches,
        "schedule": plan.schedule,
        "sequence_splits": plan.sequence_splits,
        "layers": plan.layers,
        "recompute": plan.recompute,
        "mindformers": {name: table[0] for name, table in mindformers_lists(plan).items()},
    }
