"""Trainings whose steps a test computes instead of measuring them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evenflow.cluster import Accelerator, accelerator_named
from evenflow.cluster.reached import Reached
from evenflow.cluster.topology import Topology
from evenflow.predict.calibration.measurement import Measurement, Quantity
from evenflow.predict.training import Degrees, Training
from evenflow.predict.transformer import Transformer

H100 = replace(
    accelerator_named("h100"),
    reached=Reached(
        product_share=0.65, attention_share=0.8, memory_share=0.9, operator_ns=40_000.0, link_share=0.5,
        network_share=0.4, latency_ns=30_000.0, step_ns=10e6,
    ),
)  # fmt: skip
"""Rates of the data sheet, of which as much is reached as tests count on."""


def training(hidden: int = 4096, tensor: int = 2, pipeline: int = 2, data: int = 2, microbatches: int = 4) -> Training:
    """A GPT of eight layers."""
    model = Transformer(
        hidden=hidden, layers=8, heads=32, kv_heads=32, head_dim=hidden // 32, ffn=4 * hidden, vocabulary=32_000,
        gated=False,
    )  # fmt: skip
    degrees = Degrees(tensor=tensor, pipeline=pipeline, data=data)
    return Training(model=model, degrees=degrees, microbatch=1, global_batch=data * microbatches, sequence=2048)


VARIED = tuple(
    training(hidden=hidden, tensor=tensor, data=data, microbatches=microbatches)
    for hidden in (256, 1024, 4096, 12_288)
    for tensor, data in ((1, 2), (4, 1), (8, 8))
    for microbatches in (2, 8)
)
"""Small and large layers, inside a node and across nodes."""


def measurements(
    trainings: Sequence[Training],
    truth: dict[str, float],
    *,
    noise: float = 0.0,
    seed: int = 0,
    accelerator: Accelerator = H100,
    domain: int = 8,
) -> list[Measurement]:
    """Runs that take what the model says where the accelerator reaches `truth`, give or take `noise`."""
    errors = np.random.default_rng(seed).normal(0.0, noise, len(trainings)) if noise else np.zeros(len(trainings))
    topology = Topology(accelerator=accelerator, domain_devices=domain)
    runs = [Measurement(name=f"run {index}", training=one, topology=topology) for index, one in enumerate(trainings)]
    reached = accelerator.reached.changed(truth)
    return [
        replace(run, step_ns=run.predicted(Quantity.TIME, reached) * float(np.exp(error)))
        for run, error in zip(runs, errors, strict=True)
    ]
