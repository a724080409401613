"""The command that comes next after an answer that is for no framework."""

import shlex
from pathlib import Path

from evenflow.language import _
from evenflow.model import Plan
from evenflow.simulate import Simulation

_STANDARD_OUTPUT = Path("-")


def export_line(json_file: Path | None, simulation: Simulation) -> str:
    """Return how a plan is printed for a framework; `json_file` is where it is kept, None where it is not.

    No framework has encoders beside the pipeline, or ranks that keep activations of others.
    """
    if simulation.network.encodes_apart:
        return _("next: for a framework, plan with the encoder in the first stage (--encoder first), where all have it")
    if any(simulation.pool_bytes):
        return _("next: for a framework, plan without --offload-to: none keeps activations on other ranks")
    if json_file is None or json_file == _STANDARD_OUTPUT:
        return _("next: with --json plan.json, evenflow export plan.json --to NAME prints it for your framework")
    return _("next: evenflow export {file} --to NAME prints it for your framework", file=json_file)


def target_line() -> str:
    """Return how the plan that was found is printed for a framework, where the answer is a comparison."""
    return _("next: evenflow plan with the same options and --target NAME prints it for your framework")


def simulate_line(plan: Plan, *, layers: str) -> str:
    """Return how a plan with one chunk is kept as a plan file; `layers` is the layer file."""
    options = [f"--microbatches {plan.num_microbatches}", f"--layers {','.join(map(str, plan.layers[0]))}"]
    options += [f"--recompute {kind}={','.join(map(str, plan.recompute[kind][0]))}" for kind in plan.used_kinds]
    return _(
        "next: evenflow simulate {layers} {options} --json plan.json, then\n"
        "      evenflow export plan.json --to NAME prints it for your framework",
        layers=shlex.quote(layers),
        options=" ".join(options),
    )
