"""evenflow's prediction for a measured run."""

from dataclasses import replace

from benchmarks.published.predictor import Predicted
from evenflow.cluster.reached import Reached
from evenflow.predict.prediction import predict
from evenflow.profiles.measured.as_training import training_of
from evenflow.profiles.measured.run import MeasuredRun


def predicted(run: MeasuredRun, reached: Reached | None = None) -> Predicted:
    """Return step and memory of a completed run."""
    training, topology = training_of(run)
    if reached is not None:
        topology = replace(topology, accelerator=replace(topology.accelerator, reached=reached))
    result = predict(training, topology)
    ranks = result.simulation.peak_memory_bytes
    memory = ranks[-1] if run.mem_rank == "last" else max(ranks)
    return Predicted(step_s=result.step_ns / 1e9, memory_gib=memory / 2**30)
