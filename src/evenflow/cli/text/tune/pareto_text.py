"""Steps against memory, devices, and what has to be changed, as text."""

from collections.abc import Sequence

from evenflow.cli.text.display_width import wrapped
from evenflow.cli.text.tables import aligned
from evenflow.cli.text.tune.explain_text import WIDTH, gigabytes, ms
from evenflow.language import _, _n
from evenflow.model import NONE
from evenflow.tune.answers.explain import changes_between
from evenflow.tune.answers.pareto import OnDevices, distance, peak_bytes
from evenflow.tune.axes import schedule_of
from evenflow.tune.candidate import Candidate
from evenflow.tune.wording import recompute_words, split_words


def memory_text(found: Sequence[Candidate]) -> str:
    """Return what nothing beats in both step and memory."""
    first = found[0].step_ns
    by_peak: dict[str, Candidate] = {}
    for one in found:  # of those that hold the same as it is printed, the fastest
        by_peak.setdefault(gigabytes(peak_bytes(one)), one)
    rows = [[peak, *_times(one, first), _words(one)] for peak, one in by_peak.items()]
    return _table(
        _("step against memory: nothing that was solved is both as fast and as small"),
        [_("peak GB"), _("step ms"), "%", _("configuration")],
        rows,
    )


def devices_text(found: Sequence[OnDevices], without: Sequence[int]) -> str:
    """Return what nothing beats in both step and number of devices, with the tokens per second of each device.

    `without` are numbers of devices for which nothing was found.
    """
    best = [one.best for one in found if one.best is not None]
    rows = [
        [f"{one.training.degrees.devices:,}", *_times(one, best[0].step_ns), f"{_tokens(one):,.1f}", _words(one)]
        for one in best
    ]
    table = _table(
        _("step against devices: the same batch on fewer of them"),
        [_("devices"), _("step ms"), "%", _("tokens/s each"), _("configuration")],
        rows,
    )
    if not without:
        return table
    counts = ", ".join(f"{count:,}" for count in without)
    return "\n".join([table, *wrapped(_("nothing was found that fits on {counts} devices", counts=counts), WIDTH)])


def distance_text(today: Candidate, found: Sequence[Candidate]) -> str:
    """Return what nothing beats in both step and number of settings that are changed."""
    rows = [[str(distance(today, one)), *_times(one, today.step_ns), _changed(today, one)] for one in found]
    return _table(
        _("step against changes: how much each change to yours can give, with the best layers and recomputation"),
        [_("changes"), _("step ms"), "%", _("configuration")],
        rows,
    )


def untried_text(limits: Sequence[int], devices: Sequence[int]) -> str:
    """Return the memory limits in bytes and the numbers of devices that there was no time for."""
    what = [_("{size} GB of memory", size=gigabytes(limit)) for limit in limits]
    what += [_n("1 device", "{count:,} devices", count=count) for count in devices]
    return "\n".join(wrapped(_("not solved for, the time was over: {what}", what=", ".join(what)), WIDTH))


def _table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join([*wrapped(title, WIDTH), aligned(header, rows, left={len(header) - 1})])


def _times(one: Candidate, first_ns: float) -> list[str]:
    return [ms(one.step_ns), f"{100 * (one.step_ns / first_ns - 1) + 0.0:+.1f}"]


def _changed(today: Candidate, one: Candidate) -> str:
    """Return the values that are not today's."""
    changes = changes_between(today, one)
    return ", ".join(f"{change.axis} {change.other}" for change in changes) or _("the same degrees")


def _tokens(one: Candidate) -> float:
    """Return the tokens per second of a device."""
    training = one.training
    return training.global_batch * training.sequence / (one.step_ns / 1e9) / training.degrees.devices


def _words(one: Candidate) -> str:
    assert one.plan is not None
    words = _(
        "{split}, microbatch {microbatch}, ZeRO {zero}, {schedule}",
        split=split_words(one.training),
        microbatch=one.training.microbatch,
        zero=one.training.degrees.sharding.value,
        schedule=schedule_of(one.training),
    )
    again = recompute_words(one.plan)
    return words if again == NONE else f"{words}, {again}"
