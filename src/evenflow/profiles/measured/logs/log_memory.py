"""The peak memory of a run from the peaks that its ranks logged."""

from collections.abc import Mapping

from evenflow.profiles.measured.logs.log_format import PeakOf


def logged_peak(
    peaks: Mapping[PeakOf, Mapping[int | None, int]], fields: Mapping[str, object], *, dp_is_outside: bool
) -> tuple[PeakOf, float, str] | None:
    """Return what the peak is of, its GiB, and whose it is: ``max`` of all pipeline ranks, or of the ``last``.

    `peaks` has the bytes of every rank of the job that logged any, `fields` the degrees of the run. The pipeline is the
    outermost group of ranks, unless data parallelism is outside of it. None where neither all pipeline ranks nor the
    last one logged a peak.
    """
    if not peaks:
        return None
    of = min(peaks)
    by_rank = peaks[of]
    stages = _size(fields, "pp")
    if stages == 1:
        return of, max(by_rank.values()) / 2**30, "max"
    devices = _size(fields, "gpus")
    inside = _size(fields, "tp") * _size(fields, "cp") if dp_is_outside else max(1, devices // stages)
    by_stage: dict[int, int] = {}
    for rank, size in by_rank.items():
        if rank is not None and rank < devices:
            stage = rank // inside % stages
            by_stage[stage] = max(size, by_stage.get(stage, 0))
    if len(by_stage) == stages:
        return of, max(by_stage.values()) / 2**30, "max"
    return (of, by_stage[stages - 1] / 2**30, "last") if stages - 1 in by_stage else None


def _size(fields: Mapping[str, object], name: str) -> int:
    value = fields.get(name)
    return value if isinstance(value, int) else 1
