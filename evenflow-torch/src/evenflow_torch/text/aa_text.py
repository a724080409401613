"""The A/A check of a run as text, and the text form of a fault."""

import re

from evenflow.aa import Direction
from evenflow.cli.text.aa_coverage_text import direction_name
from evenflow.cli.text.tables import aligned
from evenflow.errors import InputError
from evenflow.language import _, _n
from evenflow.units import milliseconds
from evenflow_torch.run.values.aa_report import AAReport, Evidence, Fault, FaultKind, Mismatch

_SHOWN = 5
_FORM = "rank=R,step=S[,microbatch=M][,op=forward|backward][,kind=product|message|update|stuck]"


def parse_fault(text: str) -> Fault:
    """The value of ``--inject-fault``; steps count from 1, as they are printed.

    >>> parse_fault("rank=2,step=3,op=backward")  # doctest: +NORMALIZE_WHITESPACE
    Fault(rank=2, step=2, kind=<FaultKind.PRODUCT: 'product'>, microbatch=None,
          direction=<Direction.BACKWARD: 'backward'>)
    """
    pairs = [part.partition("=") for part in text.replace(" ", "").split(",")]
    fields = {name: value for name, _, value in pairs}
    numbers = ("rank", "step", "microbatch")
    wrong = (
        len(fields) < len(pairs)
        or not {"rank", "step"} <= fields.keys() <= {*numbers, "op", "kind"}
        or not all(re.fullmatch(r"\d{1,9}", fields.get(name, "0")) for name in numbers)
        or fields.get("op", "forward") not in list(Direction)
        or fields.get("kind", FaultKind.PRODUCT) not in list(FaultKind)
        or (fields.get("kind") in (FaultKind.UPDATE, FaultKind.STUCK) and {"op", "microbatch"} & fields.keys())
    )
    if wrong:
        raise InputError(value=text, rule=_("must have the form {form}", form=_FORM), place="--inject-fault")
    return Fault(
        rank=int(fields["rank"]),
        step=int(fields["step"]) - 1,
        kind=FaultKind(fields.get("kind", FaultKind.PRODUCT)),
        microbatch=int(fields["microbatch"]) if "microbatch" in fields else None,
        direction=Direction(fields["op"]) if "op" in fields else None,
    )


def mismatch_text(mismatch: Mismatch) -> str:
    """Return ``rank 2, stage 2, microbatch 4, step 3, backward: model.norm.weight came out differently …``."""
    step = mismatch.step + 1
    if mismatch.evidence is Evidence.UPDATE:
        return _n(
            "rank {rank}, step {step}: the update of {tensor} came out differently the second time, in 1 number",
            "rank {rank}, step {step}: the update of {tensor} came out differently the second time, in {count:,} "
            "numbers",
            count=mismatch.num_different or 0,
            rank=mismatch.rank,
            step=step,
            tensor=mismatch.tensor,
        )
    if mismatch.evidence is Evidence.NEIGHBOUR:
        return _(
            "rank {rank}, microbatch {microbatch}, step {step}: {tensor} came out differently on rank {other}; the "
            "rank that differs from both of its neighbours is faulty",
            rank=mismatch.rank,
            microbatch=mismatch.microbatch,
            step=step,
            tensor=mismatch.tensor,
            other=mismatch.other_rank,
        )
    direction = direction_name(mismatch.direction or Direction.FORWARD)
    if mismatch.evidence is Evidence.MESSAGE:
        return _(
            "rank {rank}, stage {stage}, microbatch {microbatch}, step {step}, {direction}: the message from rank "
            "{other} arrived differently from what was sent",
            rank=mismatch.rank,
            stage=mismatch.stage,
            microbatch=mismatch.microbatch,
            step=step,
            direction=direction,
            other=mismatch.other_rank,
        )
    return _n(
        "rank {rank}, stage {stage}, microbatch {microbatch}, step {step}, {direction}: {tensor} came out differently "
        "the second time, in 1 number",
        "rank {rank}, stage {stage}, microbatch {microbatch}, step {step}, {direction}: {tensor} came out differently "
        "the second time, in {count:,} numbers",
        count=mismatch.num_different or 0,
        rank=mismatch.rank,
        stage=mismatch.stage,
        microbatch=mismatch.microbatch,
        step=step,
        direction=direction,
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
    parts = ("\n".join([*lines, *_beside(report)]), aligned(header, rows), "\n".join(notes), _blind(report))
    return "\n\n".join(part for part in parts if part)


def _beside(report: AAReport) -> list[str]:
    """Return what was compared beside work that is done again, what it took, and in how many steps it is all."""
    ranks = report.ranks
    return [
        _(
            "all work that bubbles and memory hold is done again within {steps} steps with checks",
            steps=max(rank.rotation_steps for rank in ranks),
        ),
        _("messages: {count:,} checksums compared, all of each step", count=sum(rank.num_messages for rank in ranks)),
        _(
            "updates: {count:,} done again, all parameters within {steps} steps with checks; {ms:,.3f} ms a step",
            count=sum(rank.num_updates for rank in ranks),
            steps=max(rank.update_steps for rank in ranks),
            ms=milliseconds(max(rank.update_ns for rank in ranks)),
        ),
        _(
            "neighbours: {count:,} layers done again by the next rank, all within {steps} steps with checks; {ms:,.3f} "
            "ms each time, after the step",
            count=sum(rank.num_neighbour_checks for rank in ranks),
            steps=steps,
            ms=milliseconds(max(rank.neighbour_ns for rank in ranks)),
        )
        if (steps := max(rank.neighbour_steps for rank in ranks))
        else _(
            "neighbours: none, so that nothing sees a fault that is stuck: there are no replicas, and one rank, or "
            "ranks with unlike numbers of devices"
        ),
    ]


def _blind(report: AAReport) -> str:
    alone = [
        _(
            "rank {index} cannot do layers of the rank before again, as it has none like them: {names}",
            index=index,
            names=", ".join(rank.without_neighbour),
        )
        for index, rank in enumerate(report.ranks)
        if rank.without_neighbour
    ]
    return "\n".join(
        [
            *alone,
            _(
                "not seen: a fault that shows up once, outside of what was checked in its step; one that is stuck in "
                "an update or in layers that no neighbour has; what cancels in a checksum; the data, and what all "
                "devices compute alike but wrong"
            ),
        ]
    )


def verdict(report: AAReport) -> str:
    """Return the error that a run with mismatches ends with; empty without any."""
    mismatches = report.mismatches
    lines = [mismatch_text(mismatch) for mismatch in mismatches[:_SHOWN]]
    if len(mismatches) > _SHOWN:
        lines.append(_("and {count} more tensors", count=len(mismatches) - _SHOWN))
    return "\n  ".join([_("the A/A check found differences"), *lines]) if mismatches else ""
