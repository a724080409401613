"""Memory peaks from the logs of dry runs."""

from collections.abc import Sequence

from evenflow.profiles.logs.stage_peaks import PeakKind
from evenflow.units import megabytes


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
