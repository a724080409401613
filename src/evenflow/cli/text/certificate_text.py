"""What a certificate proves, or why it does not, in sentences."""

from evenflow.language import _
from evenflow.units import megabytes, milliseconds
from evenflow.verify import Certificate, OrderOfWork


def proven_text(certificate: Certificate) -> str:
    """Return what was proven, and for which plans."""
    claim = certificate.claim
    gap = 100 * (1 - claim.bound_ns / max(1, claim.makespan_ns))
    lines = [
        _("proven: no plan takes less than {bound:,.6f} ms", bound=milliseconds(claim.bound_ns)),
        _(
            "the plan of the file takes {step:,.6f} ms, of which another could save at most {gap:.4f} %",
            step=milliseconds(claim.makespan_ns),
            gap=gap,
        ),
        _memory_line(certificate),
        _("proven for all plans with"),
        *(f"  {line}" for line in _conditions(certificate)),
    ]
    return "\n".join(lines)


def refused_text(certificate: Certificate, wrong: str) -> str:
    """Return that a certificate does not prove its claim, and what is wrong."""
    return _(
        "not proven: that no plan takes less than {bound:,.6f} ms; {wrong}",
        bound=milliseconds(certificate.claim.bound_ns),
        wrong=wrong,
    )


def written_line(certificate: Certificate, solver_bound_ns: int) -> str:
    """Return what a certificate proves beside what the solver has proven."""
    claim = certificate.claim
    return _(
        "certificate: proves {bound:,.3f} ms under this order of work, {gap:.4f} % below the plan; "
        "the solver has proven {solver:,.3f} ms",
        bound=milliseconds(claim.bound_ns),
        gap=100 * (1 - claim.bound_ns / max(1, claim.makespan_ns)),
        solver=milliseconds(solver_bound_ns),
    )


def _memory_line(certificate: Certificate) -> str:
    limits = [rank.limit_bytes for rank in certificate.ranks]
    fullest = max(range(len(limits)), key=lambda rank: certificate.claim.peak_bytes[rank])
    peak, limit = certificate.claim.peak_bytes[fullest], limits[fullest]
    if limit is None:
        return _("rank {rank} holds most, {peak:,.1f} MB", rank=fullest, peak=megabytes(peak))
    return _(
        "it fits: rank {rank} holds most, {peak:,.1f} of {limit:,.1f} MB",
        rank=fullest,
        peak=megabytes(peak),
        limit=megabytes(limit),
    )


def _conditions(certificate: Certificate) -> list[str]:
    """Return what all plans that are meant have in common, a line each."""
    sets = [", ".join(certificate.kinds[kind] for kind in own) for own in certificate.kind_sets]
    return [
        _(
            "the order of work of the file: {schedule}, {ranks} ranks, {stages} stages, {units} microbatches",
            schedule=certificate.schedule,
            ranks=len(certificate.ranks),
            stages=len(certificate.stage_layers),
            units=OrderOfWork(certificate).num_units,
        ),
        _(
            "the {layers} layers of {network}, at the costs in the file",
            layers=len(certificate.networks[0].layers),
            network=certificate.network,
        ),
        _layers_line(certificate),
        _("in a stage only layers under {kinds}", kinds=_(" or under ").join(sets)),
        _("the memory limits of the file")
        if any(rank.limit_bytes is not None for rank in certificate.ranks)
        else _("no memory limit"),
    ]


def _layers_line(certificate: Certificate) -> str:
    numbers = certificate.stage_layers
    if all(fewest == most for fewest, most in numbers):
        return _("as many layers in every stage as the plan has, so that only recomputation is free")
    if all(fewest for fewest, _most in numbers):
        return _("a layer in every stage")
    if any(fewest for fewest, _most in numbers):
        return _("a layer in every stage but the first and the last")
    return _("any number of layers in a stage")
