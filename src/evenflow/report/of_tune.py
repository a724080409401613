"""The first rows of a ranking of degrees as timelines of a report."""

from collections.abc import Sequence

from evenflow.draw.parts.axes import show_time
from evenflow.language import _
from evenflow.predict.memory import limit_without_reserve
from evenflow.report.of_simulation import shown_simulation
from evenflow.report.shown import Shown
from evenflow.tune.tuned import Tuned
from evenflow.tune.wording import split_words

MOST_TIMELINES = 5
"""Rows whose pipelines a report shows; the others are in its table."""


def shown_ranking(tuned: Tuned, plans: Sequence[str]) -> list[Shown]:
    """Return the pipelines of the first rows, as many as there are plan files, which the page carries."""
    question = tuned.question
    limit = limit_without_reserve(question.memory_limit_bytes, question.topology.accelerator.reached)
    shown = []
    for number, (candidate, plan) in enumerate(zip(tuned.ranked, plans, strict=False), start=1):
        prediction = candidate.prediction
        assert prediction is not None  # of every row that is shown
        rest_ns = max(0, round(candidate.step_ns) - prediction.simulation.makespan_ns)
        step_note = _(
            "The step takes {step}: the pipeline shown here {pipeline}, and {rest} beside it, as for the optimizer.",
            step=show_time(round(candidate.step_ns)),
            pipeline=show_time(prediction.simulation.makespan_ns),
            rest=show_time(rest_ns),
        )
        shown.append(
            shown_simulation(
                prediction.simulation,
                name=split_words(candidate.training),
                memory_limit_bytes=limit,
                certificate=tuned.certificate() if number == 1 else "",
                notes=(step_note,),
                plan=plan,
            )
        )
    return shown
