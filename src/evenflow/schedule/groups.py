"""Groups of microbatches in interleaved schedules: which sizes there are, and which of them make different orders.

A rank runs a group's microbatches through one of its chunks after the other. Groups of at least as many microbatches
as ranks keep the pipeline full, so that equal stages with free messages wait for fill and drain alone. A larger group
gives messages more time between chunks, and keeps more activations; where the usual size leaves a remainder, which
makes the first group larger, another size may keep fewer.
"""

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Groups, Sizes


def usual_group_size(sizes: Sizes) -> int:
    """Return the fewest microbatches that fill the pipeline: as many as ranks, fewer where sequences are split."""
    return -(-sizes.num_ranks // sizes.sequence_splits)


def group_sizes(*, num_microbatches: int, group: int, fill: int) -> list[int]:
    """Return the number of microbatches of each group: `group` each, and a remainder.

    A remainder that fills the pipeline by itself, with at least `fill` microbatches, is a last group
    [Megatron-LM, `get_schedule_table`]; a smaller one joins the first group.

    >>> group_sizes(num_microbatches=9, group=4, fill=4)
    [5, 4]
    >>> group_sizes(num_microbatches=11, group=6, fill=4)
    [6, 5]
    >>> group_sizes(num_microbatches=3, group=4, fill=4)
    [3]
    """
    whole, remainder = divmod(num_microbatches, group)
    if not whole:
        return [num_microbatches]
    if remainder >= fill:
        return [group] * whole + [remainder]
    return [group + remainder] + [group] * (whole - 1)


def first_group_size(*, num_microbatches: int, group: int, fill: int) -> int:
    """Return the first of `group_sizes`, which decides how many activations are kept."""
    return _ends(num_microbatches, group, fill)[0]


def _ends(num_microbatches: int, group: int, fill: int) -> tuple[int, int, int, int]:
    """Return the first, second and last of `group_sizes` and their number, which tell all of them."""
    whole, remainder = divmod(num_microbatches, group)
    if whole == 0:
        return num_microbatches, 0, num_microbatches, 1
    if remainder >= fill:
        return group, group if whole > 1 else remainder, remainder, whole + 1
    if whole == 1:
        return num_microbatches, 0, num_microbatches, 1
    return group + remainder, group, group, whole


def fewest_in_group(family: str, sizes: Sizes) -> int:
    """Return the smallest group size of an interleaved family: as many as fill the pipeline.

    With the shortest warm-up groups may be half as large: ranks then wait between chunks, and keep less. Anything
    smaller can never finish for some numbers of microbatches.
    """
    if family != "interleaved-less-memory":
        return usual_group_size(sizes)
    return max(1, -(-(sizes.num_ranks // 2) // sizes.sequence_splits))


def group_allowed(groups: Groups, group: int | None, sizes: Sizes) -> bool:
    """Return whether a framework with these `groups` runs an interleaved schedule in groups of `group`.

    None stands for the usual size.
    """
    ranks, count, usual = sizes.num_ranks, sizes.num_microbatches, usual_group_size(sizes)
    size = group or usual
    if groups is Groups.MEGATRON:
        return ranks <= size <= count and (count % size == 0 or count % size >= ranks)
    if groups is Groups.MULTIPLE:
        return size == usual and count % size == 0
    return groups is Groups.ANY or size == usual


def check_group_size(family: str, sizes: Sizes, group: int, *, place: str = "") -> None:
    """Raise InputError for a group size that an interleaved family does not have; `place` is the option's name."""
    fewest, most = fewest_in_group(family, sizes), sizes.num_microbatches
    if sizes.num_chunks > 1 and fewest <= group <= most:
        return
    if sizes.num_chunks == 1:
        rule = _("must not be given for one chunk per rank, where groups make no difference")
        remedy = _("leave it out")
    elif fewest > most:
        rule = _("must not be given for {most} microbatches, which are one group at most", most=most)
        remedy = _("leave it out")
    else:
        rule = _(
            "must be from {fewest} to the number of microbatches ({most}) for {family}",
            fewest=fewest,
            most=most,
            family=family,
        )
        remedy = _("with fewer in a group, ranks may wait for each other in a circle") if group < fewest else ""
    raise InputError(value=group, rule=rule, place=place or _("group size"), remedy=remedy)


def different_group_sizes(family: str, sizes: Sizes) -> tuple[int | None, ...]:
    """Return a group size for each different order of an interleaved family, the usual one first, as None.

    Of sizes with the same order, it is one that leaves no remainder below the usual size, if there is one: Megatron-LM
    refuses the others.
    """
    if sizes.num_chunks == 1:
        return (None,)
    fill, count = usual_group_size(sizes), sizes.num_microbatches
    sized = range(fewest_in_group(family, sizes), count + 1)
    regular = [group for group in sized if not 0 < count % group < fill]
    others = [] if family == "interleaved-remainder-last" else [group for group in sized if 0 < count % group < fill]
    by_groups: dict[tuple[int, int, int, int], int] = {}
    for group in (*regular, *others):
        by_groups.setdefault(_ends(count, group, fill), group)
    if family != "interleaved-remainder-last" or count % fill == 0:
        by_groups.pop(_ends(count, fill, fill), None)
    return (None, *sorted(by_groups.values()))
