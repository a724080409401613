"""What the command says of its plan beside the original's blocks: the limits that bind, and a shorter neighbour."""

from evenflow.cli.sapp.balancer_settings import DUALPIPE_V, BalancerSettings
from evenflow.cli.text.shorter_neighbour_text import neighbour_line, shorter_neighbour
from evenflow.cli.text.tables import round_up_megabytes
from evenflow.language import _
from evenflow.solve import Neighbours, Outcome, ScheduleCandidate

FAMILIES = ("1f1b", "interleaved", "interleaved-less-memory")
"""Schedules that the flags can ask for and MindFormers runs."""


def more_lines(outcome: Outcome, neighbours: Neighbours, settings: BalancerSettings) -> str:
    """Return the lines on a plan and what a quick look around it found."""
    lines = [binding_line(outcome, same_without_limit=neighbours.same_without_limit)]
    shorter = shorter_neighbour(neighbours, outcome)
    if shorter is not None and shorter.outcome is not None:
        lines.append(neighbour_line(shorter.outcome, outcome, options=flags_for(shorter, settings)))
    return "\n".join(filter(None, lines))


def flags_for(neighbour: ScheduleCandidate, settings: BalancerSettings) -> str:
    """Return the flags that ask for the schedule and the chunks of `neighbour`, as far as they change."""
    less_memory = neighbour.schedule == "interleaved-less-memory"
    was_dual = settings.schedule == DUALPIPE_V
    flags = ["-dual 0"] if was_dual else []
    if neighbour.num_chunks > 1 and less_memory != settings.less_memory:
        flags.append(f"-lm {int(less_memory)}")
    if neighbour.num_chunks != settings.sizes.num_chunks or flags == ["-dual 0"]:
        flags.append(f"-i {neighbour.num_chunks}")
    return " ".join(flags)


def binding_line(outcome: Outcome, *, same_without_limit: bool = False) -> str:
    """Return the stages whose memory limit binds; empty where none was checked."""
    if outcome.binding is None:
        return ""
    stages = [limit.rank for limit in outcome.binding]
    if same_without_limit:
        return "memory_binds: " + _("no stage: the same plan is optimal without a limit")
    if not stages:
        return "memory_binds: " + _("no stage: none alone would recompute less or take a layer with more memory")
    least = min(outcome.binding, key=lambda limit: limit.more_bytes)
    values = {"stages": stages, "more": f"{round_up_megabytes(least.more_bytes)} MB", "stage": least.rank}
    if least.takes_layer:
        text = _("stages {stages}; with {more} more, stage {stage} would take a layer from its neighbour", **values)
    else:
        text = _("stages {stages}; with {more} more, stage {stage} would recompute less", **values)
    return f"memory_binds: {text}"
