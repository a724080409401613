"""The best plans by step time against memory, number of devices or changed settings, as text."""

from collections.abc import Sequence

from evenflow.cli.text.display_width import text_width, wrapped
from evenflow.cli.text.tables import aligned
from evenflow.cli.text.tune.explain_text import gigabytes, ms
from evenflow.language import _, _n
from evenflow.model import NONE
from evenflow.tune.answers.explain import changes_between
from evenflow.tune.answers.pareto import OnDevices, distance, peak_bytes
from evenflow.tune.axes import schedule_of
from evenflow.tune.candidate import Candidate
from evenflow.tune.wording import recompute_words, split_words


def memory_text(candidates: Sequence[Candidate]) -> str:
    """Return a table of the plans that no other beats in both step time and memory."""
    first = candidates[0].step_ns
    by_peak: dict[str, Candidate] = {}
    for candidate in candidates:  # of those that hold the same as it is printed, the fastest
        by_peak.setdefault(gigabytes(peak_bytes(candidate)), candidate)
    rows = [[peak, *_times(candidate, first), _words(candidate)] for peak, candidate in by_peak.items()]
    return _table(
        _("step against memory: nothing that was solved is both as fast and as small"),
        [_("peak GB"), _("step ms"), "%", _("configuration")],
        rows,
    )


def devices_text(by_devices: Sequence[OnDevices], without: Sequence[int]) -> str:
    """Return a table of the plans that no other beats in both step time and number of devices.

    `without` are numbers of devices for which nothing was found.
    """
    best = [on_devices.best for on_devices in by_devices if on_devices.best is not None]
    rows = [
        [
            f"{candidate.training.degrees.devices:,}",
            *_times(candidate, best[0].step_ns),
            f"{_tokens(candidate):,.1f}",
            _words(candidate),
        ]
        for candidate in best
    ]
    table = _table(
        _("step against devices: the same batch on fewer of them"),
        [_("devices"), _("step ms"), "%", _("tokens/s each"), _("configuration")],
        rows,
    )
    if not without:
        return table
    counts = ", ".join(f"{count:,}" for count in without)
    return "\n".join(
        [table, *wrapped(_("nothing was found that fits on {counts} devices", counts=counts), text_width())]
    )


def distance_text(today: Candidate, candidates: Sequence[Candidate]) -> str:
    """Return a table of the plans that no other beats in both step time and number of changed settings."""
    rows = [
        [str(distance(today, candidate)), *_times(candidate, today.step_ns), _changed(today, candidate)]
        for candidate in candidates
    ]
    return _table(
        _("step against changes: how much each change to yours can give, with the best layers and recomputation"),
        [_("changes"), _("step ms"), "%", _("configuration")],
        rows,
    )


def untried_text(limits: Sequence[int], devices: Sequence[int]) -> str:
    """Return a sentence on the memory limits (bytes) and numbers of devices that there was no time to solve for."""
    untried = [_("{size} GB of memory", size=gigabytes(limit)) for limit in limits]
    untried += [_n("1 device", "{count:,} devices", count=count) for count in devices]
    return "\n".join(wrapped(_("not solved for, the time was over: {what}", what=", ".join(untried)), text_width()))


def _table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join([*wrapped(title, text_width()), aligned(header, rows, left={len(header) - 1})])


def _times(candidate: Candidate, first_ns: float) -> list[str]:
    return [ms(candidate.step_ns), f"{100 * (candidate.step_ns / first_ns - 1) + 0.0:+.1f}"]


def _changed(today: Candidate, candidate: Candidate) -> str:
    """Return the values that differ from today's: ``tensor 8, data 2``."""
    changes = changes_between(today, candidate)
    return ", ".join(f"{change.axis} {change.other}" for change in changes) or _("the same degrees")


def _tokens(candidate: Candidate) -> float:
    """Return the tokens per second of a device."""
    training = candidate.training
    return training.global_batch * training.sequence / (candidate.step_ns / 1e9) / training.degrees.devices


def _words(candidate: Candidate) -> str:
    assert candidate.plan is not None
    description = _(
        "{split}, microbatch {microbatch}, ZeRO {zero}, {schedule}",
        split=split_words(candidate.training),
        microbatch=candidate.training.microbatch,
        zero=candidate.training.degrees.sharding.value,
        schedule=schedule_of(candidate.training),
    )
    again = recompute_words(candidate.plan)
    return description if again == NONE else f"{description}, {again}"
