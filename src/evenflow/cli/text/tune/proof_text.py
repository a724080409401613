"""What the columns of a ranking mean, what is proven of it, and what was searched, as text."""

from collections.abc import Iterator, Sequence

from evenflow.cli.text.display_width import text_width, wrapped
from evenflow.language import _, _n
from evenflow.predict.memory import fit_probability
from evenflow.solve.clock import counts_work
from evenflow.tune.axes import Axis
from evenflow.tune.candidate import Candidate
from evenflow.tune.error import contenders, tied, uncertain_ns
from evenflow.tune.limits import all_schedules
from evenflow.tune.question import USUAL_CONFIDENCE, TuningQuestion
from evenflow.tune.space import most_of
from evenflow.tune.tuned import Tuned

TIE = "≈"
UNSURE = "!"
_OF_DEVICES = (Axis.TENSOR, Axis.CONTEXT, Axis.EXPERT)
"""Axes that no more devices than there are can be split over."""


def legend(tuned: Tuned, rows: int) -> Iterator[str]:
    """Yield what the columns and marks mean, and which rows have their place for certain."""
    best = tuned.best
    if best is None or best.prediction is None:
        return
    low, high = best.prediction.interval_ns
    yield from wrapped(
        _(
            "TP, CP, EP, PP x chunks, DP: ways of tensor, context, expert, pipeline and data parallelism; MBS: "
            "sequences of a microbatch; tokens/s: of a device; peak, free: GB of the fullest device, and below the "
            "limit; largest loss: what takes most of the step beside computation, memory by what it makes recompute",
        ),
        text_width(),
    )
    yield from wrapped(
        _(
            "fits%: the probability that all devices have enough memory; rows below {confidence} % are left out "
            "(--confidence)",
            confidence=f"{100 * (tuned.question.confidence or 0.5):.4g}",
        ),
        text_width(),
    )
    if any(map(is_unsure, tuned.ranked[:rows])):
        yield _("{sign}: fits with less than {usual:.4g} %", sign=UNSURE, usual=100 * USUAL_CONFIDENCE)
    yield from wrapped(
        _(
            "±: four of five measured steps of this kind were within it of the prediction; of the first, from "
            "{low_ms:,.0f} to {high_ms:,.0f} ms",
            low_ms=low / 1e6,
            high_ms=high / 1e6,
        ),
        text_width(),
    )
    same = tied(tuned.ranked)
    if same:
        sentence = _(
            "{sign} cannot be told apart: {count} of {all} are within {share:.1f} % of the first; nine of ten measured "
            "pairs that are predicted further apart ran in that order",
            sign=TIE,
            count=len(same),
            all=len(tuned.ranked),
            share=100 * uncertain_ns(best.prediction) / best.step_ns,
        )
        yield from wrapped(sentence, text_width())
    shown = contenders(tuned.ranked, rows)
    hidden = len(tuned.ranked[:rows]) - len(shown)
    if hidden:
        sentence = _n(
            "1 more row is not shown: its interval lies above that of the first",
            "{count} more rows are not shown: their intervals lie above that of the first",
            count=hidden,
        )
        yield from wrapped(sentence, text_width())
    sure = _sure_rows(tuned, shown)
    if sure < len(shown):
        yield _("splits that were not solved could stand before row {row} and those after it", row=sure + 1)


def is_unsure(candidate: Candidate) -> bool:
    """Whether a row that is shown is less likely to fit than is usual."""
    prediction, limit_bytes = candidate.prediction, candidate.pricing.question.memory_limit_bytes
    return prediction is not None and fit_probability(prediction.memory, limit_bytes) < USUAL_CONFIDENCE


def _sure_rows(tuned: Tuned, rows: Sequence[Candidate]) -> int:
    """Return how many rows have their rank for certain, since nothing that was not solved can be faster."""
    open_ns = tuned.open_bound_ns
    return sum(candidate.step_ns <= open_ns for candidate in rows)


def proof(tuned: Tuned) -> Iterator[str]:
    """Yield what is proven, how many configurations were refuted and solved, and which rules exclude combinations."""
    legal, excluded = tuned.num_legal, sum(tuned.excluded.values())
    yield from wrapped(tuned.certificate(), text_width())
    if legal:
        counts = _n("1 legal configuration", "{count:,} legal configurations", count=legal)
        values = {"counts": counts, "refuted": tuned.num_refuted, "solved": tuned.num_solved}
        seconds = tuned.solve_seconds
        if counts_work():
            sentence = _(
                "{counts}: {refuted:,} refuted by a lower bound, {solved:,} solved, with {seconds:.1f} s of work",
                seconds=seconds,
                **values,
            )
        else:
            sentence = _(
                "{counts}: {refuted:,} refuted by a lower bound, {solved:,} solved, in {seconds:.1f} s",
                seconds=seconds,
                **values,
            )
        yield from wrapped(sentence, text_width())
    if excluded:
        most = sorted(tuned.excluded.items(), key=lambda rule: -rule[1])
        yield from wrapped(
            _(
                "{count:,} combinations are not legal: {rules}",
                count=excluded,
                rules=", ".join(f"{option_word(name)} {number:,}" for name, number in most),
            ),
            text_width(),
        )
    if tuned.interrupted:
        yield _("interrupted: this is the ranking so far, with its bound")


def option_word(place: str) -> str:
    """Return the name of a field as options spell it: ``global-batch``."""
    return place.replace("_", "-")


def space(question: TuningQuestion) -> Iterator[str]:
    """Yield the space that was searched: its schedules, the limits of its axes, and what was fixed."""
    fixed = question.fixed
    most = {
        axis: min(limit, question.devices) if axis in _OF_DEVICES else limit
        for axis, limit in most_of(question).items()
    }
    limits = ", ".join(f"{axis} {limit:,}" for axis, limit in most.items() if axis not in fixed)
    decided = ", ".join(f"{axis} {value}" for axis, value in fixed.items())
    names = question.schedules
    tried = ", ".join(names)
    if Axis.SCHEDULE not in fixed and set(names) >= set(all_schedules(question.model)):
        tried = _("all schedules")
    yield from wrapped(_("the space: {tried}; at most {limits} (--max-…)", tried=tried, limits=limits), text_width())
    if question.allow_empty:
        yield _("cells may hold no layer")
    if decided:
        yield from wrapped(_("decided: {decided}", decided=decided), text_width())
