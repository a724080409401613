"""Times of head, body and tail: means of samples, with how far the samples lie apart."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import median

from evenflow.model import Halves, PassHalves
from evenflow.profiles.layer_entry import plain_backward_ns
from evenflow.profiles.traces.names import BODY
from evenflow.profiles.traces.samples import FileSamples, PartShares, Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSpread:
    """Smallest, middle and largest sample in nanoseconds, over layers, steps and files."""

    minimum_ns: int
    median_ns: int
    maximum_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockTime:
    """Time of ONE layer, or of the whole head or tail, for ONE microbatch: the mean of the samples."""

    name: str
    """Names of the layers that were seen, joined by " + "."""
    forward_ns: int
    forward_spread: SampleSpread
    backward_ns: int | None
    """Nanoseconds of the backward; None where no trace shows the whole of it."""
    backward_spread: SampleSpread | None
    num_samples: int
    scopes: tuple[str, ...]
    """Names of the scopes that were counted."""
    files: tuple[str, ...]
    halves: Halves | None = None
    """What is known apart of forward and backward; None where no trace shows exchanges of tokens in both."""

    @property
    def known_backward_ns(self) -> int:
        """Nanoseconds of the backward: measured, or twice the forward where no trace shows it."""
        return plain_backward_ns(self.forward_ns) if self.backward_ns is None else self.backward_ns


def block_time(files: Sequence[FileSamples], role: str, names: Sequence[str]) -> BlockTime | None:
    """Return the mean over layers, steps and files, or None; the layers of a head or tail add up within a step."""
    forwards: list[Fraction] = []
    backwards: list[Fraction] = []
    scopes: dict[str, None] = {}
    seen: dict[str, None] = {}
    contributors: list[str] = []
    ahead: list[PartShares] = []
    back: list[PartShares] = []
    for file in files:
        samples = [sample for sample in file.samples if sample.match.role == role and sample.match.name in names]
        if not samples:
            continue
        contributors.append(file.report.file)
        scopes |= dict.fromkeys(sample.scope for sample in samples)
        seen |= dict.fromkeys(sample.match.name for sample in samples)
        for group in [[sample] for sample in samples] if role == BODY else _by_step(samples):
            forwards.append(sum((sample.forward_ns for sample in group), Fraction()))
            visible = [sample.backward_ns for sample in group if sample.backward_ns is not None]
            if len(visible) == len(group):
                backwards.append(sum(visible, Fraction()))
                back += [sample.backward_parts_ns for sample in group]
            ahead += [sample.forward_parts_ns for sample in group]
    if not forwards:
        return None
    return BlockTime(
        name=" + ".join(name for name in names if name in seen),
        forward_ns=round(sum(forwards) / len(forwards)),
        forward_spread=_spread(forwards),
        backward_ns=round(sum(backwards) / len(backwards)) if backwards else None,
        backward_spread=_spread(backwards) if backwards else None,
        num_samples=len(forwards),
        scopes=tuple(scopes),
        files=tuple(contributors),
        halves=_halves(ahead, back) if role == BODY else None,
    )


def _halves(ahead: Sequence[PartShares], back: Sequence[PartShares]) -> Halves | None:
    """Return the means of the parts of forwards and backwards, rounded down; None without exchanges in both."""
    if not (any(map(any, ahead)) and any(map(any, back))):
        return None
    return Halves(forward=_mean(ahead), backward=_mean(back))


def _mean(parts: Sequence[PartShares]) -> PassHalves:
    dispatch_ns, mlp_ns, combine_ns = (sum(column, Fraction()) // len(parts) for column in zip(*parts, strict=True))
    return PassHalves(dispatch_ns=dispatch_ns, mlp_ns=mlp_ns, combine_ns=combine_ns)


def _by_step(samples: Iterable[Sample]) -> list[list[Sample]]:
    """Return the samples of one file, grouped by step."""
    steps: dict[int, list[Sample]] = {}
    for sample in samples:
        steps.setdefault(sample.step, []).append(sample)
    return list(steps.values())


def _spread(values: Sequence[Fraction]) -> SampleSpread:
    return SampleSpread(minimum_ns=round(min(values)), median_ns=round(median(values)), maximum_ns=round(max(values)))
