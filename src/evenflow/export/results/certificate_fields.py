"""A certificate as a file, and a checked one as fields of a result file."""

import msgspec

from evenflow.export.results.json_text import format_object
from evenflow.units import megabytes, milliseconds
from evenflow.verify import Certificate


def certificate_file(certificate: Certificate) -> str:
    """Return the text of a certificate's file, without its mark."""
    fields = msgspec.to_builtins(certificate)
    del fields["written_by"]
    return format_object(fields)


def certificate_fields(certificate: Certificate, *, wrong: str) -> dict[str, object]:
    """Return what a certificate claims, and what is `wrong` with it; empty: nothing."""
    claim = certificate.claim
    limits = [rank.limit_bytes for rank in certificate.ranks]
    return {
        "proven": not wrong,
        "wrong": wrong,
        "network": certificate.network,
        "schedule": certificate.schedule,
        "makespan_ms": milliseconds(claim.makespan_ns),
        "lower_bound_ms": milliseconds(claim.bound_ns),
        "gap": 1 - claim.bound_ns / claim.makespan_ns if claim.makespan_ns else 0.0,
        "peak_memory_mb": [megabytes(peak) for peak in claim.peak_bytes],
        "memory_limit_mb": [None if limit is None else megabytes(limit) for limit in limits],
    }
