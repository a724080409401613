"""A profile of a model as text."""

from typing import TYPE_CHECKING

from evenflow.cli.text.tables import aligned
from evenflow.cluster import parse_dtype
from evenflow.language import _
from evenflow.units import megabytes, milliseconds
from evenflow_torch.requests import ProfileRequest

if TYPE_CHECKING:
    from evenflow_torch.profile.model_profile import ModelProfile


def profile_text(profile: "ModelProfile", request: ProfileRequest) -> str:
    """Return every distinct part, its memory under each recompute kind, and where the times come from."""
    microbatch = _(
        "{microbatch} x {sequence} tokens, {dtype}, {optimizer}",
        microbatch=request.microbatch,
        sequence=request.sequence,
        dtype=parse_dtype(request.dtype).short_name,
        optimizer=request.optimizer,
    )
    if request.tensor_parallel > 1:
        microbatch = _(
            "{microbatch}, on one of {devices} devices", microbatch=microbatch, devices=request.tensor_parallel
        )
    if request.expert_parallel > 1:
        microbatch = _(
            "{microbatch}, with the experts of one of {devices} devices",
            microbatch=microbatch,
            devices=request.expert_parallel,
        )
    head = _(
        "{name}: {layers} layers; a microbatch is {microbatch}",
        name=profile.name,
        layers=len(profile.layers),
        microbatch=microbatch,
    )
    paragraphs = [
        head,
        _part_table(profile),
        _kind_table(profile),
        "\n".join(_("note: {note}", note=note) for note in profile.notes),
    ]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _part_table(profile: "ModelProfile") -> str:
    """Return parameters and times of one layer and one microbatch."""
    header = [
        "",
        _("layer"),
        _("layers"),
        _("parameters"),
        _("with optimizer MB"),
        _("forward TFLOP"),
        _("F ms"),
        _("I ms"),
        _("W ms"),
    ]
    measured = any(part.times.spread is not None for _, part, _ in profile.parts)
    rows = []
    for role, part, count in profile.parts:
        times = part.times
        plain_ns = times.backward_ns["none"]
        row = [role, part.name, str(count), f"{part.num_parameters:,}", _mb(part.parameter_bytes)]
        row += [f"{part.forward_flops / 1e12:,.3f}", _ms(times.forward_ns)]
        row += [_ms(plain_ns - times.weight_ns), _ms(times.weight_ns)]
        rows.append(row + ([f"{100 * (times.spread or 0):.0f}"] if measured else []))
    titles = header + ([_("spread %")] if measured else [])
    return aligned(titles, rows, left={0, 1}, leaving=(5, *range(9, len(titles)), 4, 3))


def _kind_table(profile: "ModelProfile") -> str:
    """Return activation, backward and working memory of a layer under every recompute kind."""
    rows = [
        [part.name, kind, _mb(size), _ms(part.times.backward_ns[kind]), _mb(part.working_bytes[kind])]
        for _, part, _ in profile.parts
        for kind, size in part.activation_bytes.items()
    ]
    return aligned([_("layer"), _("recompute"), _("activation MB"), _("I + W ms"), _("working MB")], rows, left={0, 1})


def _mb(size_bytes: int) -> str:
    return f"{megabytes(size_bytes):,.1f}"


def _ms(time_ns: int) -> str:
    return f"{milliseconds(time_ns):,.3f}"
