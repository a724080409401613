"""What the A/A check of a plan covers, as text."""

from evenflow.aa import Coverage, Direction, RankCoverage
from evenflow.cli.text.tables import aligned
from evenflow.language import _, _n
from evenflow.units import milliseconds


def aa_coverage_text(coverage: Coverage) -> str:
    """Return steps until all is checked, a row for each rank, times to detection, and what is never checked."""
    header = [_("rank"), _("steps"), _("at least"), _("steps to every kind"), _("work a step %"), _("never %")]
    rows = [
        [
            str(index),
            str(rank.num_turns) if rank.num_turns else "-",
            str(rank.at_least_turns) if rank.num_turns else "-",
            str(rank.kind_turns) if rank.num_turns else "-",
            f"{100 * rank.share:.1f}",
            f"{100 * rank.never_share:.1f}",
        ]
        for index, rank in enumerate(coverage.ranks)
    ]
    paragraphs = ["\n".join(_headline(coverage)), aligned(header, rows), "\n".join(_never(coverage)), _blind()]
    return "\n\n".join(part for part in paragraphs if part)


def direction_name(direction: Direction) -> str:
    """Return ``forward`` or ``backward`` in the language spoken now."""
    return _("forward") if direction is Direction.FORWARD else _("backward")


def _headline(coverage: Coverage) -> list[str]:
    if not coverage.num_turns:
        return [_("A/A check: no work fits a bubble")]
    proof = (
        _("no choice of checks needs fewer")
        if coverage.is_shortest
        else _("every choice needs at least {turns}", turns=max(rank.at_least_turns for rank in coverage.ranks))
    )
    steps = _n("1 step", "{count:,} steps", count=coverage.num_turns)
    lines = [
        _(
            "A/A check: all work that bubbles and memory hold is checked within {steps}; {proof}",
            steps=steps,
            proof=proof,
        ),
        _(
            "a fault that spoils the same piece of checked work in every step is seen within {steps} of {step_ms:,.3f} "
            "ms, {hours:.3g} hours",
            steps=steps,
            step_ms=milliseconds(coverage.step_ns),
            hours=coverage.hours_if_always,
        ),
    ]
    means = [(coverage.errors_until_seen(rank), rank) for rank in range(len(coverage.ranks))]
    known = [(mean, rank) for mean, rank in means if mean is not None]
    worst, rank = max(known)
    lines.append(
        _(
            "if a rank computes one wrong result an hour, each at a random moment of its work, once, the first is seen "
            "after {hours:.1f} hours on average on rank {rank}, the slowest of those that are checked",
            hours=worst,
            rank=rank,
        )
    )
    return lines


def _never(coverage: Coverage) -> list[str]:
    return [
        _("rank {index}: never checked: {names}", index=index, names=_names(rank))
        for index, rank in enumerate(coverage.ranks)
        if rank.never
    ]


def _names(rank: RankCoverage) -> str:
    return ", ".join(
        _n(
            "{direction} of stage {stage} on 1 microbatch",
            "{direction} of stage {stage} on {count:,} microbatches",
            count=count,
            direction=direction_name(direction),
            stage=stage,
        )
        for (stage, direction), count in rank.never
    )


def _blind() -> str:
    return _(
        "not seen by doing work again on the same device: a fault that comes out alike both times, and what never is "
        "checked; evenflow run --aa-check says what else it compares"
    )
