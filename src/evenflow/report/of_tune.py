"""A ranking of degrees in a report: the pipelines of its first rows, and all configurations."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from evenflow.draw.configurations_picture import ConfigurationDot, Configurations
from evenflow.draw.parts.axes import show_time
from evenflow.draw.vocabulary import Vocabulary
from evenflow.language import _
from evenflow.predict.prediction import Prediction
from evenflow.predict.training import Training
from evenflow.report.figures import peak_figure
from evenflow.report.of_simulation import shown_simulation
from evenflow.report.shown import Shown, ShownMemory
from evenflow.tune.candidate import Candidate
from evenflow.tune.tuned import Tuned
from evenflow.tune.wording import split_words
from evenflow.units import GIGABYTE

MOST_TIMELINES = 5
"""Rows whose pipelines a report shows; the others are in its table."""
_DEGREES: tuple[tuple[str, Callable[[Training], int]], ...] = (
    ("TP", lambda training: training.degrees.tensor),
    ("PP", lambda training: training.degrees.pipeline),
    ("CP", lambda training: training.degrees.context),
    ("EP", lambda training: training.degrees.expert),
    ("DP", lambda training: training.degrees.data),
    ("MBS", lambda training: training.microbatch),
)
"""What configurations may be coloured by: the first in which any two differ."""


def shown_ranking(tuned: Tuned, plans: Sequence[str]) -> list[Shown]:
    """Return the pipelines of the first rows, as many as there are plan files, which the page carries.

    Step and memory are those of the ranking: the whole step, and memory with the reserve.
    """
    question = tuned.question
    tokens = question.global_batch * question.sequence
    shown = []
    for number, (candidate, plan) in enumerate(zip(tuned.ranked, plans, strict=False), start=1):
        prediction = candidate.prediction
        assert prediction is not None  # of every row that is shown
        pipeline = shown_simulation(
            prediction.simulation,
            name=split_words(candidate.training),
            memory_limit_bytes=question.memory_limit_bytes,
            certificate=tuned.certificate() if number == 1 else "",
            plan=plan,
        )
        whole = replace(pipeline.work, tokens=tokens)
        shown.append(_whole_step(replace(pipeline, work=whole), candidate, prediction, tuned))
    return shown


def _whole_step(pipeline: Shown, candidate: Candidate, prediction: Prediction, tuned: Tuned) -> Shown:
    """Return a timeline with the numbers of its row: what is beside the pipeline, the reserve, the driver's."""
    question = tuned.question
    step_ns, limit = round(candidate.step_ns), question.memory_limit_bytes
    reached = question.topology.accelerator.reached
    reserve, driver_bytes = reached.reserve_share, round(reached.driver_bytes)
    rest_ns = max(0, step_ns - pipeline.makespan_ns)
    peaks = tuple(rank.total_bytes for rank in prediction.memory)
    (step_name, _pipeline), _peaks, (_idle, share), *others = pipeline.figures
    step_note = _(
        "The step takes {step}: the pipeline shown here {pipeline}, and {rest} beside it, as for the optimizer. Memory "
        "includes a reserve of {reserve:g} %, and {driver:.1f} GB that driver and communicators take.",
        step=show_time(step_ns),
        pipeline=show_time(pipeline.makespan_ns),
        rest=show_time(rest_ns),
        reserve=100 * reserve,
        driver=driver_bytes / GIGABYTE,
    )
    return replace(
        pipeline,
        step_ns=step_ns,
        peak_bytes=peaks,
        memory=None if pipeline.memory is None else _whole_memory(pipeline.memory, reserve, driver_bytes),
        what_if={
            "why_not": _(
                "This plan cannot be changed here: the page does not know what is beside the pipeline of its step."
            )
        },
        figures=(
            (step_name, show_time(step_ns)),
            peak_figure(peaks, limit, Vocabulary.OURS),
            (_("Idle, of the pipeline alone"), share),
            *others,
        ),
        notes=(step_note,),
    )


def _whole_memory(memory: ShownMemory, share: float, driver_bytes: int) -> ShownMemory:
    """Return memory of which every byte takes its share of the reserve, and what the driver takes from the start."""

    def more(values: tuple[int, ...], beside: int = 0) -> tuple[int, ...]:
        return tuple(round(value * (1 + share)) + beside for value in values)

    ends = memory.end_changes
    return ShownMemory(
        static_bytes=more(memory.static_bytes, driver_bytes),
        working_bytes=more(memory.working_bytes),
        changes=np.rint(memory.changes * (1 + share)).astype(np.int64),
        end_changes=None if ends is None else np.rint(ends * (1 + share)).astype(np.int64),
    )


def tuned_configurations(tuned: Tuned, recipe: Candidate | None = None) -> Configurations | None:
    """Return every configuration of which a plan is known, and `recipe`, which runs now; None without any."""
    solved = [candidate for candidate in tuned.made if candidate.found is not None]
    if tuned.best is None:
        return None
    trainings = [candidate.training for candidate in solved]
    name, degree = next(
        (pair for pair in _DEGREES if len({pair[1](training) for training in trainings}) > 1), _DEGREES[0]
    )

    def dot(candidate: Candidate) -> ConfigurationDot:
        found, training = candidate.found, candidate.training
        assert found is not None
        return ConfigurationDot(
            step_ns=round(found.step_ns),
            memory_bytes=max(found.rank_bytes),
            degree=degree(training),
            words=f"{split_words(training)}, {found.plan.schedule}, MBS {training.microbatch}",
        )

    return Configurations(
        dots=tuple(map(dot, solved)),
        degree_name=name,
        chosen=dot(tuned.best),
        recipe=None if recipe is None or recipe.found is None else dot(recipe),
        bound_ns=round(max(0.0, tuned.lower_bound_ns)),
        limit_bytes=tuned.question.memory_limit_bytes,
        note=_(
            "A dot for each of the {solved} configurations of which a plan is known, of {legal} that are legal. Bounds "
            "rule out {refuted} of all.",
            solved=f"{len(solved):,}",
            legal=f"{tuned.num_legal:,}",
            refuted=f"{tuned.num_refuted:,}",
        ),
    )
