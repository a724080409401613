"""The A/A check of a run as text, and the text form of a fault."""

import re

from evenflow.aa import Direction
from evenflow.cli.text.aa_coverage_text import direction_name
from evenflow.cli.text.tables import aligned
from evenflow.errors import InputError
from evenflow.language import _, _n
from evenflow.units import milliseconds
from evenflow_torch.run.values.aa_report import AAReport, Fault, Mismatch

_SHOWN = 5
_FORM = "rank=R,step=S[,microbatch=M][,op=forward|backward]"


def parse_fault(text: str) -> Fault:
    """The value of ``--inject-fault``; steps count from 1, as they are printed.

    >>> parse_fault("rank=2,step=3,op=backward")
    Fault(rank=2, step=2, microbatch=None, direction=<Direction.BACKWARD: 'backward'>)
    """
    pairs = [part.partition("=") for part in text.replace(" ", "").split(",")]
    fields = {name: value for name, _, value in pairs}
    numbers = ("rank", "step", "microbatch")
    wrong = (
        len(fields) < len(pairs)
        or not {"rank", "step"} <= fields.keys() <= {*numbers, "op"}
        or not all(re.fullmatch(r"\d{1,9}", fields.get(name, "0")) for name in numbers)
        or fields.get("op", "forward") not in list(Direction)
    )
    if wrong:
        raise InputError(value=text, rule=_("must have the form {form}", form=_FORM), place="--inject-fault")
    return Fault(
        rank=int(fields["rank"]),
        step=int(fields["step"]) - 1,
        microbatch=int(fields["microbatch"]) if "microbatch" in fields else None,
        direction=Direction(fields["op"]) if "op" in fields else None,
    )


def mismatch_text(mismatch: Mismatch) -> str:
    """Return ``rank 2, stage 2, microbatch 4, step 3, backward: model.norm.weight came out differently …``."""
    return _n(
        "rank {rank}, stage {stage}, microbatch {microbatch}, step {step}, {direction}: {tensor} came out differently "
        "the second time, in 1 number",
        "rank {rank}, stage {stage}, microbatch {microbatch}, step {step}, {direction}: {tensor} came out differently "
        "the second time, in {count:,} numbers",
        count=mismatch.num_different,
        rank=mismatch.rank,
        stage=mismatch.stage,
        microbatch=mismatch.microbatch,
        step=mismatch.step + 1,
        direction=direction_name(mismatch.direction),
        tensor=mismatch.tensor,
    )


def audit_text(report: AAReport) -> str:
    """Return headline, cost, a row for each rank, and what was not checked."""
    checks = sum(rank.num_checks for rank in report.ranks)
    num_differences = len(report.mismatches)
    lines = [
        _(
            "A/A check: {checks:,} checks in {steps} steps, {found}",
            checks=checks,
            steps=report.num_checked_steps,
            found=_("{count} DIFFERENCES", count=num_differences) if num_differences else _("no difference"),
        ),
        _(
            "step with checks {checked_ms:,.3f} ms, without {plain_ms:,.3f} ms ({cost:+.2f} %); medians, in turn",
            checked_ms=milliseconds(report.checked_step_ns),
            plain_ms=milliseconds(report.plain_step_ns),
            cost=100 * report.cost,
        ),
    ]
    header = [
        _("rank"),
        _("checks"),
        _("actions a step %"),
        _("actions of the run %"),
        _("check ms a step"),
        _("differences"),
    ]
    rows = [
        [
            str(index),
            str(rank.num_checks),
            f"{100 * rank.share_per_step:.1f}",
            f"{100 * rank.share_of_run:.1f}",
            f"{milliseconds(rank.check_ns):,.3f}",
            str(len(rank.mismatches)),
        ]
        for index, rank in enumerate(report.ranks)
    ]
    notes = []
    for index, rank in enumerate(report.ranks):
        waiting = [item for item in rank.never_checked if item not in rank.fits_no_bubble]
        for why, items in ((_("fits no bubble"), rank.fits_no_bubble), (_("not yet checked"), waiting)):
            if items:
                names = ", ".join(
                    _("{direction} of stage {stage}", direction=direction_name(direction), stage=stage)
                    for stage, direction in items
                )
                notes.append(_("rank {index}: {why}: {names}", index=index, why=why, names=names))
        notes += [_("rank {index}: 1 bit flipped in {place}", index=index, place=place) for place in rank.injected]
    return "\n\n".join(part for part in ("\n".join(lines), aligned(header, rows), "\n".join(notes)) if part)


def verdict(report: AAReport) -> str:
    """Return the error that a run with mismatches ends with; empty without any."""
    mismatches = report.mismatches
    lines = [mismatch_text(mismatch) for mismatch in mismatches[:_SHOWN]]
    if len(mismatches) > _SHOWN:
        lines.append(_("and {count} more tensors", count=len(mismatches) - _SHOWN))
    return "\n  ".join([_("the A/A check found differences"), *lines]) if mismatches else ""
