"""Where a prediction goes beyond the runs of a calibration, as a sentence."""

from evenflow.cluster.topology import Topology
from evenflow.language import _, joined
from evenflow.predict.evidence import Outside, outside
from evenflow.predict.training import Training


def extrapolation_text(training: Training, topology: Topology) -> str:
    """Return what of a training the runs of the calibration do not cover, and what follows; empty where they do."""
    beyond = outside(training, topology)
    calibration = topology.accelerator.calibration
    if not beyond or calibration is None:
        return ""
    return _(
        "beyond the runs that {name} was calibrated on: {list}; {what}",
        name=topology.accelerator.name,
        list=joined([_outside(trait) for trait in beyond]),
        what=_counts(calibration.counts),
    )


def _counts(counts: float) -> str:
    if counts == 0.0:
        return _("nothing of what was fitted counts here, and the values from before it are used")
    if counts < 1.0:
        return _("{share:.0f} % of what was fitted counts here", share=100 * counts)
    return _("what was fitted counts all the same")


def _outside(trait: Outside) -> str:
    if trait.name == "experts":
        return _("experts, which no run has") if trait.value else _("no experts, which all runs have")
    if isinstance(trait.value, str):
        names = {"precision": _("precision"), "software": _("software")}
        runs = _(" or ").join(map(str, trait.covered))
        return _("{name} {value} (runs: {runs})", name=names[trait.name], value=trait.value, runs=runs)
    least, most = (f"{end:,}" for end in trait.covered)
    runs = least if least == most else _("{least} to {most}", least=least, most=most)
    return _("{name} {value} (runs: {runs})", name=_sizes()[trait.name], value=f"{trait.value:,}", runs=runs)


def _sizes() -> dict[str, str]:
    return {
        "hidden": _("hidden size"),
        "sequence": _("sequence length"),
        "devices": _("devices"),
        "devices_per_node": _("devices of a node"),
        "tensor": _("tensor parallelism"),
        "pipeline": _("pipeline parallelism"),
        "context": _("context parallelism"),
        "expert": _("expert parallelism"),
    }
