"""An accelerator as a file: the inverse of `evenflow.profiles.accelerator_file`."""

import json

from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.calibration import ERRORS, CalibrationRecord
from evenflow.cluster.reached import PARAMETERS, Reached
from evenflow.profiles.accelerator_file import RATES
from evenflow.profiles.yaml_text import entry_lines
from evenflow.units import format_bandwidth, format_flops, format_memory


def format_accelerator_file(accelerator: Accelerator, *, is_json: bool = False) -> str:
    """Return a file that reads back as `accelerator`, which comes from a data sheet or from a file."""
    fields = accelerator_fields(accelerator)
    if is_json:
        return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"
    return "".join(f"{line}\n" for key, value in fields.items() for line in entry_lines(key, value))


def accelerator_fields(accelerator: Accelerator) -> dict[str, object]:
    """Return the fields of that file: every rate is stated, so that nothing changes with what is known by a name."""
    fields: dict[str, object] = {"name": accelerator.name}
    if accelerator.source:
        fields["source"] = accelerator.source
    if accelerator.generation:
        fields["generation"] = accelerator.generation
    fields |= {
        "flops": {key: format_flops(accelerator.rate(dtype)) for key, dtype in RATES.items()},
        "memory": format_memory(accelerator.memory_bytes),
        "memory_bandwidth": format_bandwidth(accelerator.memory_bytes_per_s),
        "link": {
            "bandwidth": format_bandwidth(accelerator.link_bytes_per_s),
            "devices": accelerator.link_devices,
            "switch_reduces": accelerator.switch_reduces,
        },
        "network": {"bandwidth": format_bandwidth(accelerator.network_bytes_per_s)},
        "reached": _reached_fields(accelerator.reached),
    }
    if accelerator.calibration is not None:
        fields["calibration"] = _calibration_fields(accelerator.calibration)
    return fields


def _reached_fields(reached: Reached) -> dict[str, object]:
    fields: dict[str, object] = {name: float(getattr(reached, name)) for name in PARAMETERS}
    errors = {name: float(reached.standard_errors[name]) for name in PARAMETERS if name in reached.standard_errors}
    return {**fields, "standard_errors": errors} if errors else fields


def _calibration_fields(calibration: CalibrationRecord) -> dict[str, object]:
    fields: dict[str, object] = {"runs": calibration.runs}
    if calibration.files:
        fields["files"] = list(calibration.files)
    errors = {name: getattr(calibration, name) for name in ERRORS}
    return fields | {name: error for name, error in errors.items() if error is not None}
