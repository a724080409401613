"""Reads the sizes of a step from a request: microbatches of a given size, or a global batch still to be cut."""

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.ranges import MICROBATCHES, SEQUENCES
from evenflow_torch.requests import AutoRequest


def step_sizes(request: AutoRequest, *, usual: int, can_choose: bool = True) -> tuple[int, int] | None:
    """Return the samples of a microbatch and the microbatches of a step; None where both are to be chosen.

    They are chosen only with `can_choose`. Any two of the three determine the third. Of microbatches alone each has
    `usual` samples.

    Raises:
        InputError: too little is given, or what does not agree.
    """
    global_batch, microbatch, num_microbatches = request.global_batch, request.microbatch, request.num_microbatches
    for place, value, numbers in (
        ("--global-batch", global_batch, SEQUENCES),
        ("--microbatch", microbatch, SEQUENCES),
        ("--microbatches", num_microbatches, MICROBATCHES),
    ):
        if value is not None:
            numbers.check(value, place=place)
    if global_batch is None:
        if num_microbatches is None:
            raise InputError(
                rule=_("must be given, or --microbatches"),
                place="--global-batch",
                remedy=_("add the sequences of a step: size and number of microbatches are then chosen"),
            )
        return microbatch or usual, num_microbatches
    if microbatch is None and num_microbatches is None:
        if not can_choose:
            raise InputError(
                rule=_("must be given beside --global-batch where nothing is searched"),
                place="--microbatch",
                remedy=_("add it, or --microbatches"),
            )
        return None
    divisor = (microbatch or 1) * (num_microbatches or 1)
    if microbatch and num_microbatches and divisor != global_batch:
        raise InputError(
            value=global_batch,
            rule=_(
                "must be --microbatches times --microbatch, {number} x {size} = {product}",
                number=num_microbatches,
                size=microbatch,
                product=divisor,
            ),
            place="--global-batch",
            remedy=_("leave one of the three out"),
        )
    if global_batch % divisor:
        name = "--microbatch" if microbatch else "--microbatches"
        raise InputError(
            value=divisor,
            rule=_("must divide the {global_batch} sequences of --global-batch", global_batch=global_batch),
            place=name,
            remedy=_("leave it out to have it chosen"),
        )
    return (microbatch or global_batch // divisor), (num_microbatches or global_batch // divisor)
