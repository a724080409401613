"""A plan of ``evenflow auto`` made again for another number of devices, from what its file says of the request."""

from dataclasses import replace
from math import gcd
from typing import Any

import click

from evenflow.cli.shared.model_config import config_path, read_config
from evenflow.cluster import Cluster
from evenflow.errors import RunError
from evenflow.fields import as_fields, load_json
from evenflow.language import _
from evenflow.profiles.accelerator_file import accelerator_given
from evenflow_torch.requests import AutoRequest
from evenflow_torch.results.auto_fields import auto_fields
from evenflow_torch.verbs.torch_extra import torch_extra

_REQUESTED = {
    "sequence": "sequence",
    "target_sequence": "target_sequence",
    "microbatch": "microbatch",
    "microbatches": "num_microbatches",
    "efficiency": "efficiency",
    "dtype": "dtype",
    "optimizer": "optimizer",
    "bytes_per_parameter": "bytes_per_parameter",
    "overlap": "overlap",
    "expert_capacity": "expert_capacity",
    "axes": "most_axes",
}
"""Fields of the plan file, and what they are in the request."""


def with_devices(cluster: Cluster, num_devices: int) -> Cluster:
    """Return a cluster of so many devices, in nodes as large as before, or as evenly as they can be.

    >>> from evenflow.cluster.cluster import Link
    >>> link = Link(bytes_per_s=1)
    >>> nodes = Cluster(num_nodes=2, devices_per_node=4, memory_bytes=1, intra=link, inter=link)
    >>> [(small.num_nodes, small.devices_per_node) for small in (with_devices(nodes, count) for count in (12, 6, 3))]
    [(3, 4), (3, 2), (1, 3)]
    """
    in_node = gcd(num_devices, cluster.devices_per_node)
    if num_devices < cluster.devices_per_node:
        in_node = num_devices
    return replace(cluster, num_nodes=num_devices // in_node, devices_per_node=in_node)


def auto_plan_for(
    text: str, place: str, *, model: str, cluster: Cluster, num_devices: int, seconds: float
) -> dict[str, object]:
    """Return the fields of the best plan of the model for so many devices, with the same batches, and say what it is.

    `cluster` is that of the plan in the file `text`, and planning takes at most so many `seconds`. Degrees that were
    fixed were so for other devices: they are chosen anew, as is the schedule.

    Raises:
        RunError: the model does not fit so many devices.
    """
    with torch_extra(place="evenflow run"):
        import evenflow_torch.models.training_row  # noqa: F401 - it imports both
        from evenflow_torch.auto.config_planner import Decided, plan_training
        from evenflow_torch.auto.deadline import Deadline
        from evenflow_torch.auto.fixing.fixed import Fixed
    fields = as_fields(load_json(text, file=place), file=place)
    config = read_config(config_path(model))
    accelerator = fields.text("accelerator")
    values: dict[str, Any] = {name: fields.required(key) for key, name in _REQUESTED.items() if key in fields}
    request = AutoRequest(accelerator=accelerator_given(accelerator, place=place), **values)
    click.echo(
        _("planning for {count} devices instead of {before} ...", count=num_devices, before=cluster.num_devices),
        err=True,
    )
    fixed = fields.required("fixed") if "fixed" in fields else ""
    if fixed:
        click.echo(_("note: what was fixed is chosen anew: {fixed}", fixed=fixed), err=True)
    decisions = Decided(
        fixed=Fixed(), own=None, deadline=Deadline.after(seconds), name=config.name, progress=lambda _text: None
    )
    result = plan_training(config.fields, with_devices(cluster, num_devices), request, decisions)
    if result.two_level is None:
        raise RunError(
            _("no plan is known with which the model fits {count} devices: plan with evenflow auto", count=num_devices)
        )
    return auto_fields(result, replace(request, accelerator=accelerator))
