"""JSON of a prediction: step time, what it is spent on, memory of every rank."""

from dataclasses import dataclass

from evenflow.export.results.extrapolation_fields import extrapolation_fields
from evenflow.predict.limits.smallest_change import Change
from evenflow.predict.memory import RankMemory, fit_probability
from evenflow.predict.parameters import model_parameters
from evenflow.predict.prediction import Prediction
from evenflow.predict.training import Training
from evenflow.units import megabytes, milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class NextPlan:
    """The command that plans the pipeline of a prediction."""

    command: str
    pipeline_ns: int
    """What the pipeline of the prediction takes there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionSetting:
    """The options of a prediction beside the training itself."""

    memory_limit_bytes: int
    """Of a device; 0 where it is not known."""
    assumed: tuple[str, ...] = ()
    """Options that were not given, each with the value it has."""
    notes: tuple[str, ...] = ()
    """What was assumed of the model, or left out of it."""
    next_plan: NextPlan | None = None
    """How to plan the pipeline of the layer file; None without one."""
    change: Change | None = None
    """The smallest change that fits, where the memory limit is exceeded and there is one."""
    changed_options: tuple[str, ...] = ()
    """The change as options of the command."""


def prediction_fields(prediction: Prediction, setting: PredictionSetting) -> dict[str, object]:
    """Return the JSON fields of a prediction and of the training that it is for."""
    training = prediction.training
    limit = setting.memory_limit_bytes
    peak = max(held.total_bytes for held in prediction.memory)
    return {
        "name": training.model.name,
        "parameters": model_parameters(training.model),
        "accelerator": prediction.topology.accelerator.name,
        "devices": training.degrees.devices,
        "devices_per_node": prediction.topology.domain_devices,
        **training_fields(training),
        "recompute": training.recompute,
        "recompute_modules": list(training.recompute_modules) if training.recompute == "select" else [],
        "recompute_layers": training.full_layers,
        "layers": [list(row) for row in prediction.simulation.plan.layers],
        "step_ms": milliseconds(round(prediction.step_ns)),
        "step_interval_ms": [end_ns / 1e6 for end_ns in prediction.interval_ns],
        "pipeline_ms": milliseconds(prediction.simulation.makespan_ns),
        **time_fields(prediction),
        "memory": [memory_fields(held) for held in prediction.memory],
        **({"host_mb": [megabytes(size) for size in prediction.host_bytes]} if any(prediction.host_bytes) else {}),
        "memory_limit_mb": megabytes(limit) if limit else None,
        "fits": peak <= limit if limit else None,
        "fits_probability": fit_probability(prediction.memory, limit) if limit else None,
        "smallest_change": _change_fields(setting),
        "assumed": list(setting.assumed),
        "notes": list(setting.notes),
        **extrapolation_fields(training, prediction.topology),
        "plan_command": None if setting.next_plan is None else setting.next_plan.command,
        "plan_pipeline_ms": None if setting.next_plan is None else milliseconds(setting.next_plan.pipeline_ns),
    }


def time_fields(prediction: Prediction) -> dict[str, object]:
    """Return tokens per second, utilisation, what the time of a rank is spent on, and how long every rank waits."""
    return {
        "tokens_per_s_per_device": prediction.tokens_per_device_s,
        "model_tflops_per_device": prediction.model_flops_per_device_s / 1e12,
        "model_flop_utilisation": prediction.utilisation,
        "time_rank": prediction.busiest_rank,
        "idle_ms": [idle_ns / 1e6 for idle_ns in prediction.idle_ns],
        "time": [
            {
                "part": part.name,
                "exposed_ms": part.exposed_ns / 1e6,
                "hidden_ms": part.hidden_ns / 1e6,
                "recomputed_ms": part.recomputed_ns / 1e6,
                "share": part.exposed_ns / prediction.step_ns,
            }
            for part in prediction.parts
        ],
    }


def memory_fields(memory: RankMemory) -> dict[str, object]:
    """Return what a rank holds at its fullest moment."""
    return {
        "total_mb": megabytes(memory.total_bytes),
        "parts_mb": {str(held): megabytes(size) for held, size in memory.parts.items()},
    }


def _change_fields(setting: PredictionSetting) -> dict[str, object] | None:
    change = setting.change
    if change is None:
        return None
    return {
        "options": list(setting.changed_options),
        "step_ms": milliseconds(round(change.step_ns)),
        "peak_mb": megabytes(change.memory_bytes),
    }


def training_fields(training: Training) -> dict[str, object]:
    """Return how a training is split, its batch and its formats."""
    degrees, experts = training.degrees, training.model.experts
    return {
        "tensor": degrees.tensor,
        "pipeline": degrees.pipeline,
        "chunks": degrees.chunks,
        "context": degrees.context,
        "data": degrees.data,
        "expert": degrees.expert,
        "expert_tensor": degrees.expert_tensor,
        "expert_capacity": None if experts is None else experts.capacity_factor,
        "frozen_layers": training.model.frozen_layers,
        "adapter_rank": training.model.adapter_rank,
        "zero": int(degrees.sharding),
        **({"optimizer_offload": degrees.optimizer_offload} if degrees.optimizer_offload else {}),
        "sequence_parallel": degrees.sequence_parallel,
        "context_exchange": degrees.context_exchange,
        "global_batch": training.global_batch,
        "microbatch": training.microbatch,
        "microbatches": training.microbatches,
        "sequence": training.sequence,
        "precision": training.precision,
        "gradient_bytes": training.software.gradient_bytes,
    }
