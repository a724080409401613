"""How far the peaks of a plan may be off whose memory was fitted to measured peaks."""

from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.language import _

CONSTANT = "constant"
PARAMETER = "parameter"
HEAD = "head"
TAIL = "tail"
TERMS = (CONSTANT, PARAMETER, HEAD, TAIL)
"""Terms of a peak beside the activations, which have the names of recompute kinds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakError:
    """The error of a fit of memory: of one peak, and of the terms that peaks consist of.

    Raises:
        InputError: a covariance that is not square, or has a negative variance.
    """

    standard_error_bytes: int
    """Standard error of one measured peak."""
    degrees_of_freedom: int
    """Measured peaks beyond the terms; 0: the error is only that of rounding."""
    terms: tuple[str, ...]
    """Those of `TERMS` that were fitted, and the recompute kinds whose activations were."""
    covariance: tuple[tuple[float, ...], ...]
    """Of the terms, in squares of the standard error of a peak, ``[term][term]``."""

    def __post_init__(self) -> None:
        sizes = {len(row) for row in self.covariance} | {len(self.covariance)}
        is_square = sizes == {len(self.terms)} if self.terms else not self.covariance
        if not is_square or any(self.covariance[index][index] < 0 for index in range(len(self.terms))):
            rule = _("must be square, with one row for each term and no negative variance")
            raise InputError(value=len(self.covariance), rule=rule, place="covariance")
