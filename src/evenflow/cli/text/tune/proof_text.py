"""What the columns of a ranking mean, what is proven of it, and what was searched, as text."""

from collections.abc import Iterator, Sequence
from itertools import takewhile

from evenflow.cli.text.display_width import text_width, wrapped
from evenflow.language import _, _n
from evenflow.solve.clock import counts_work
from evenflow.tune.axes import Axis
from evenflow.tune.candidate import Candidate
from evenflow.tune.error import contenders, tied, uncertain_ns
from evenflow.tune.limits import all_schedules
from evenflow.tune.preference import AS_GOOD, Doubt, doubts_of
from evenflow.tune.question import USUAL_CONFIDENCE, TuningQuestion
from evenflow.tune.space import most_of
from evenflow.tune.tuned import Tuned

TIE = "≈"
DOUBT = "!"
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
    for sentence in (*_preferred(tuned), *_doubts(shown)):
        yield from wrapped(sentence, text_width())
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


def _preferred(tuned: Tuned) -> Iterator[str]:
    """Yield why the first row is not the fastest."""
    best, fastest = tuned.best, tuned.fastest
    if best is not None and fastest is not None and best is not fastest:
        yield _(
            "the first row takes {share:.2f} % longer than the fastest, which is row {row}: of rows that cannot be "
            "told apart, and are within {most:g} % of the fastest, the simplest that nobody would refuse comes first, "
            "with the fewest kinds of parallelism, recomputation and sharding",
            share=100 * (best.step_ns / fastest.step_ns - 1),
            row=tuned.ranked.index(fastest) + 1,
            most=100 * AS_GOOD,
        )


def _doubts(rows: Sequence[Candidate]) -> Iterator[str]:
    """Yield what people would refuse rows for, with the numbers of these rows."""
    of_rows = [doubts_of(candidate) for candidate in rows]
    for doubt in Doubt:
        numbers = ", ".join(str(number) for number, doubts in enumerate(of_rows, 1) if doubt in doubts)
        if not numbers:
            continue
        if doubt is Doubt.MEMORY:
            yield _(
                "{sign} rows that many would refuse: less than {usual:.4g} % sure to fit are {rows}",
                sign=DOUBT,
                usual=100 * USUAL_CONFIDENCE,
                rows=numbers,
            )
        else:
            yield _(
                "{sign} rows that many would refuse: all layers are computed again, and their parameters gathered "
                "across nodes, for every microbatch in {rows}",
                sign=DOUBT,
                rows=numbers,
            )


def _sure_rows(tuned: Tuned, rows: Sequence[Candidate]) -> int:
    """Return how many rows have their rank for certain, since nothing that was not solved can be faster."""
    open_ns = tuned.open_bound_ns
    return sum(1 for _row in takewhile(lambda candidate: candidate.step_ns <= open_ns, rows))


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
