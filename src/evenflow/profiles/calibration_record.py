"""What an accelerator file says of the runs that its values were fitted to, read and written.

calibration:
  runs: 12
  files: [runs.csv]
  step_error: 0.03
  before: {product_share: 0.651}      what the fitted parameters were before
  covered: [{runs: 12, precision: bf16, experts: false, software: [fused-attention], hidden: [4096, 8192], ...}]

Files of earlier versions have neither `before` nor `covered`.
"""

from evenflow.cluster.calibration import SIZES, CalibrationRecord, CoveredRuns
from evenflow.cluster.reached import PARAMETERS, Reached
from evenflow.fields import Fields
from evenflow.language import _
from evenflow.profiles.yaml_file import section
from evenflow.ranges import COEFFICIENT, Range

ERRORS = ("step_error", "expected_step_error", "memory_error", "expected_memory_error")
"""Names of the errors."""
PARAMETER = Range(least=0, most=1e15, is_whole=False)
"""Of a value of `Reached`."""
_RUNS = Range(least=1, most=10_000_000)
_SIZE = Range(least=1, most=10**12)


def calibration_record(fields: Fields) -> CalibrationRecord:
    """Return the record under `calibration`.

    Raises:
        InputError: a field that is unknown, missing or of a wrong form.
    """
    calibration = section(fields, "calibration")
    calibration.check_known(("runs", "files", *ERRORS, "before", "covered"))
    before: dict[str, float] = {}
    if "before" in calibration:
        values = section(calibration, "before")
        values.check_known(PARAMETERS)
        before = {name: float(values.number(name, PARAMETER)) for name in PARAMETERS if name in values}
        with values.at():
            Reached().changed(before)
    return CalibrationRecord(
        runs=calibration.integer("runs", _RUNS),
        files=calibration.texts("files") if "files" in calibration else (),
        before=before,
        covered=tuple(map(_covered, calibration.objects("covered"))) if "covered" in calibration else (),
        **{name: float(calibration.number(name, COEFFICIENT)) for name in ERRORS if name in calibration},
    )


def _covered(fields: Fields) -> CoveredRuns:
    fields.check_known(("runs", "precision", "experts", "software", *SIZES))
    sizes = {name: fields.integers(name, _SIZE, length=2) for name in SIZES}
    for name, (least, most) in sizes.items():
        if least > most:
            raise fields.error(name, _("must have the smallest size first, then the largest"))
    return CoveredRuns(
        runs=fields.integer("runs", _RUNS),
        precision=fields.text("precision"),
        experts=fields.flag("experts"),
        software=fields.texts("software"),
        **sizes,  # type: ignore[arg-type]
    )


def calibration_record_fields(calibration: CalibrationRecord) -> dict[str, object]:
    """Return the fields that `calibration_record` reads back."""
    fields: dict[str, object] = {"runs": calibration.runs}
    if calibration.files:
        fields["files"] = list(calibration.files)
    errors = {name: getattr(calibration, name) for name in ERRORS}
    fields |= {name: error for name, error in errors.items() if error is not None}
    if calibration.before:
        fields["before"] = {name: float(calibration.before[name]) for name in PARAMETERS if name in calibration.before}
    if calibration.covered:
        fields["covered"] = [covered_fields(runs) for runs in calibration.covered]
    return fields


def covered_fields(runs: CoveredRuns) -> dict[str, object]:
    """Return runs of one kind as the fields of an object."""
    return {
        "runs": runs.runs,
        "precision": runs.precision,
        "experts": runs.experts,
        "software": list(runs.software),
        **{name: list(getattr(runs, name)) for name in SIZES},
    }
