"""The few runs whose steps tell most about an accelerator, chosen among those that models and devices allow."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from evenflow.cluster.data_sheets import ACCELERATORS
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.calibration.informative import InformativeRow, most_informative, step_slopes
from evenflow.predict.calibration.measurement import Measurement
from evenflow.predict.calibration.tunable import Tunable
from evenflow.predict.prediction import Prediction
from evenflow.predict.training import Sharding, Training
from evenflow.profiles.measured.as_run import run_of
from evenflow.profiles.measured.run import MeasuredRun
from evenflow.profiles.measured.to_calibrate import runs_to_calibrate
from evenflow.tune.axes import Axis
from evenflow.tune.question import TuningQuestion
from evenflow.tune.space import space_of

_CANDIDATES = 48
"""Most candidates of a model: more take longer and tell hardly more."""
_SEQUENCES_OF_DEVICE = (1, 4)
"""Sequences of a step for each device: short steps, and such with a full pipeline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """A run to be measured."""

    run: MeasuredRun
    measurement: Measurement
    prediction: Prediction
    chosen: InformativeRow


def device_counts(devices: int, devices_per_node: int) -> tuple[int, ...]:
    """Return the numbers of devices that are tried: a node, two, and all."""
    node = min(devices, devices_per_node)
    return tuple(sorted({node, min(devices, 2 * node), devices}))


def candidates(
    question: TuningQuestion, *, can_run: Callable[[Prediction], bool]
) -> Iterator[tuple[MeasuredRun, Measurement, Prediction]]:
    """Yield runs of a question's model that fit, those on few devices first; `can_run` says what a framework can."""
    trainings = [training for count in device_counts(question.devices, question.topology.domain_devices)
                 for training in _trainings(question, count)]  # fmt: skip
    count = min(_CANDIDATES, len(trainings))
    name_of_device = question.topology.accelerator.name
    hardware = name_of_device if name_of_device in ACCELERATORS else None
    for index in range(count):
        training = trainings[index * len(trainings) // count]
        for recompute in ("none", "full"):
            name = f"candidate-{index}"
            run = run_of(
                replace(training, recompute=recompute), name=name, hardware=hardware,
                devices_per_node=question.topology.domain_devices,
            )  # fmt: skip
            # As it is read back, so that what is planned is what will be fitted.
            (measurement,) = runs_to_calibrate([replace(run, step_s=1.0)], question.topology.accelerator).measurements
            prediction = measurement.prediction(measurement.reached)
            if question.fits([rank.total_bytes for rank in prediction.memory]):
                if can_run(prediction):
                    yield run, measurement, prediction
                break


def _trainings(question: TuningQuestion, devices: int) -> list[Training]:
    legal: list[Training] = []
    for sequences in _SEQUENCES_OF_DEVICE:
        batch = sequences * devices
        tried = replace(
            question, devices=devices, global_batch=batch,
            most={**question.most, Axis.CHUNKS: 2, Axis.CONTEXT: 1, Axis.MICROBATCH: 4},
        )  # fmt: skip
        legal += [training for training in space_of(tried).legal if training.degrees.sharding is _sharding(training)]
    return legal


def _sharding(training: Training) -> Sharding:
    """Return what is sharded of a candidate: the optimizer's state, where there are copies of it."""
    return Sharding.OPTIMIZER if training.degrees.data > 1 else Sharding.NOTHING


def planned_runs(
    runs: Sequence[tuple[MeasuredRun, Measurement, Prediction]],
    tunables: Sequence[Tunable],
    count: int,
    *,
    stem: str = "calibrate",
    predicted: Callable[[], None] = lambda: None,
) -> tuple[PlannedRun, ...]:
    """Return `count` of the candidates, named after `stem`, the one that tells most first.

    Raises:
        InputError: no candidates.
    """
    if not runs:
        raise InputError(
            rule=_("must allow a run that fits in memory"), place="--plan-runs",
            remedy=_("give more devices, or a smaller model"),
        )  # fmt: skip
    ordered = sorted(runs, key=lambda candidate: candidate[1].training.degrees.devices)
    slopes = step_slopes([measurement for _run, measurement, _prediction in ordered], tunables, predicted=predicted)
    return tuple(_named(ordered[chosen.row], chosen, f"{stem}-{number}") for number, chosen in
                 enumerate(most_informative(slopes, tunables, count)))  # fmt: skip


def _named(candidate: tuple[MeasuredRun, Measurement, Prediction], chosen: InformativeRow, name: str) -> PlannedRun:
    run, measurement, prediction = candidate
    return PlannedRun(
        run=replace(run, id=name, ref=name), measurement=replace(measurement, name=name), prediction=prediction,
        chosen=chosen,
    )  # fmt: skip
