"""The dry runs that determine the memory of every part, the peaks that they logged, and the memory fitted to these."""

from collections.abc import Sequence

from evenflow.export.mindformers import mindformers_lists
from evenflow.model import KNOWN_KINDS, Plan
from evenflow.profiles.init.init_file import InitFile
from evenflow.profiles.logs.stage_peaks import PeakKind
from evenflow.profiles.memory.dry_run_guide import Guide, measured_ranks
from evenflow.profiles.memory.fit import MemoryFit
from evenflow.units import megabytes


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


def peaks_fields(sources: Sequence[str], rounds: Sequence[Sequence[int]], kind: PeakKind) -> dict[str, object]:
    """Return the peak of every stage, in bytes in `rounds`, for each round and where it was read."""
    return {
        "peak": kind.value.lower(),
        "stages": len(rounds[0]),
        "rounds": [
            {"source": source, "peak_memory_mb": [megabytes(peak) for peak in peaks]}
            for source, peaks in zip(sources, rounds, strict=True)
        ],
    }


def fit_fields(init: InitFile, fit: MemoryFit) -> dict[str, object]:
    """Return every unknown with its error, and every peak beside its equation."""
    runs = fit.dry_runs
    return {
        "stages": runs.num_ranks,
        "num_layers": init.num_layers,
        "rounds": len(runs.rounds),
        "constant_fitted": fit.constant_fitted,
        "degrees_of_freedom": fit.degrees_of_freedom,
        "peak_standard_error_mb": megabytes(fit.peak_error_bytes),
        "condition_number": fit.condition_number,
        "unknowns": [
            {
                "name": estimate.name,
                "value_mb": megabytes(estimate.value_bytes),
                "value_without_bound_mb": None if estimate.free_bytes is None else megabytes(estimate.free_bytes),
                "standard_error_mb": (
                    None if estimate.standard_error_bytes is None else megabytes(estimate.standard_error_bytes)
                ),
                "weights": estimate.weights,
            }
            for estimate in fit.estimates
        ],
        "peaks": [
            {
                "round": peak.round_index + 1,
                "stage": peak.rank,
                "measured_mb": megabytes(peak.peak_bytes),
                "computed_mb": megabytes(peak.peak_bytes - residual),
                "residual_mb": megabytes(residual),
            }
            for peak, residual in zip(runs.peaks, fit.residuals_bytes, strict=True)
        ],
        "notes": fit.notes,
    }
