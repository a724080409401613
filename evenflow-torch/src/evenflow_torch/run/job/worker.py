"""One rank of ``evenflow run``: build, calibrate, train, measure, compare."""

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from evenflow.schedule import schedule_of
from evenflow_torch.run.aa.checked_run import AARun, checks_of_rank
from evenflow_torch.run.aa.checked_run import report as aa_report
from evenflow_torch.run.assembly.build import pipeline
from evenflow_torch.run.assembly.pipeline import Pipeline
from evenflow_torch.run.engine.spread_tensors import local_part
from evenflow_torch.run.engine.stages import cut
from evenflow_torch.run.job.models import build_model, materialise, next_token_loss, tokens
from evenflow_torch.run.job.rank_environment import rank_environment
from evenflow_torch.run.job.step_metrics import most_memory_bytes, seconds_at_peak
from evenflow_torch.run.job.training_data import EVAL_BATCHES, TrainingData, open_data
from evenflow_torch.run.measure.calibrate import MeasuredCosts, calibrate
from evenflow_torch.run.measure.live_memory import memory_meter
from evenflow_torch.run.measure.load import Load
from evenflow_torch.run.measure.profiled import write_profile
from evenflow_torch.run.measure.recorder import Recorder, clock_offset_ns, synchronize
from evenflow_torch.run.measure.rehearsal import rehearse
from evenflow_torch.run.measure.verify import Unsplit, gathered_gradients, gradient_error, limit_as_planned, loss_error
from evenflow_torch.run.replicas.replicas import PIPELINE, REPLICATED, SHARDED
from evenflow_torch.run.values.aa_report import Mismatch
from evenflow_torch.run.values.run_job import (
    MOST_MEASURED_STEPS,
    RANK_TIMEOUT_SECONDS,
    TOLERANCES,
    WARM_UP_STEPS,
    Device,
    RunJob,
)
from evenflow_torch.run.values.run_result import (
    ActionRow,
    RankResult,
    RunResult,
    StepReport,
    Verification,
    worst_conditions,
)

Batch = tuple[Tensor, Tensor]
"""Tokens and the tokens behind them, each of shape [batch, length]."""
Report = Callable[[StepReport | Mismatch], None]


def train(job: RunJob, report: Report, *, rank_timeout_s: float = RANK_TIMEOUT_SECONDS) -> RunResult | None:
    """Run `job` as one rank; RANK, WORLD_SIZE and so on are in the environment, as torchrun sets them.

    `report` is called on the rank of the last stage after every step, and on every rank with what the A/A check finds.
    Under torchrun a rank that shows no sign of life for `rank_timeout_s` seconds has failed.
    Rank 0 gets the result, the others None.
    """
    device = (
        torch.device("cuda", rank_environment(os.environ).local_rank)
        if job.device is Device.CUDA
        else torch.device("cpu")
    )
    logging.getLogger("torch.distributed.tensor").setLevel(logging.ERROR)  # it warns of what a plan asks for
    if job.aa_check:
        _compute_deterministically()
    if device.type == "cuda":
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
    else:
        dist.init_process_group("gloo")
    trainer = _Trainer(job, device, rank_timeout_s)
    with trainer.pipe.at_work():
        result = trainer.train(report)
    # Not after a failure: closed connections make the other ranks fail before this one has said why.
    dist.destroy_process_group()
    return result


def _compute_deterministically() -> None:
    """Use kernels that give the same bits again; an operation without one fails with a message that says so."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False


class _Trainer:
    """The state of one rank from step to step."""

    def __init__(self, job: RunJob, device: torch.device, rank_timeout_s: float) -> None:
        self.job = job
        self.device = device
        self.rank = next(rank for rank, own in enumerate(job.processes_of_rank) if dist.get_rank() in own)
        """Rank of the pipeline, which several devices may share or be replicas of."""
        self.model = build_model(job)
        self.num_parameters = self.model.num_parameters
        self.files = job.files
        self.data = self._opened(job.files.data) if job.files.data else None
        self.clock_offset_ns = clock_offset_ns(device)
        self.recorder = Recorder(device, clock_offset_ns=self.clock_offset_ns)
        self.pipe = self._pipeline(rank_timeout_s)
        self.aa: AARun | None = None
        self.load = Load()
        """That of the measured steps."""
        self.eval_batches: list[Batch] = []
        self.seconds_at_peak = seconds_at_peak(job, device) if job.files.shows_metrics else None

    def train(self, report: Report) -> RunResult | None:
        """Calibrate, run all steps and gather the results on rank 0."""
        calibration = calibrate(self.pipe, self._own(self._example()), self.pipe.loss_fn)
        own = calibration.rank_result()
        example = self._own(self._example())
        rehearsals = rehearse(self.pipe, self.recorder, lambda: self.pipe.step(example), self.device)
        if self.job.aa_check:
            self.aa = self._aa_check(calibration, report)
        optimizer = self._optimizer(list(self.pipe.parameters()))
        if self.files.resume is not None:
            self.pipe.load(self.files.resume, optimizer)
        unsplit = self._unsplit() if self.job.verify and dist.get_rank() == 0 else None
        losses, expected, errors = [], [], []
        actions: deque[list[ActionRow]] = deque(maxlen=MOST_MEASURED_STEPS)
        peak_bytes = 0
        coming = self._batch(self.files.first_step)
        for step in range(self.files.first_step, self.job.num_steps):
            batch = coming
            loss, step_ns, peak = self._step(step, batch, optimizer)
            peak_bytes = max(peak_bytes, peak)
            if self._is_measured(step) and not self.job.has_aa_checks(step):
                actions.append(self.recorder.rows())
            if loss is not None:
                losses.append(float(loss))
            if self.job.verify:
                gradients = gathered_gradients(self.pipe)
                if unsplit is not None and gradients is not None:
                    count = self.job.plan.num_microbatches * self.job.data_parallel
                    expected.append(float(unsplit.step(*batch, count)))
                    errors.append(gradient_error(gradients, unsplit.parameters))
                    unsplit.optimizer.step()
            if self.aa is None:
                optimizer.step()
            else:
                self.aa.update(optimizer, check=self.job.has_aa_checks(step))
            coming = self._batch(step + 1)  # on its way to the device while that updates the parameters
            news = self._news(step, loss, step_ns)
            if news is not None and self.pipe.is_first_device:
                report(news)
            folder = self.files.checkpoint_after(step + 1, self.job.num_steps)
            if folder is not None:
                self.pipe.save(folder, optimizer)
        if self.files.profile is not None:
            last = self._own(self._example())
            write_profile(
                Path(self.files.profile), self.rank, lambda: self.pipe.step(last),
                is_written=self.pipe.is_first_device, device=self.device,
            )  # fmt: skip
        own = replace(
            own, static_bytes=own.static_bytes + self._static_bytes(optimizer), peak_bytes=peak_bytes,
            actions=list(actions),
        )  # fmt: skip
        gathered: list[Any] | None = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
        conditions = replace(calibration.conditions, step_waiting=self.load.share)
        dist.gather_object((own, losses, conditions, self.aa.own() if self.aa else None), gathered)
        if gathered is None:
            return None
        losses = next(losses for _, losses, *_ in gathered if losses)
        return RunResult(
            model=self.job.model,
            num_parameters=self.num_parameters,
            losses=losses,
            message_ns=calibration.message_ns,
            overhead=calibration.overhead,
            ranks=by_rank([result for result, *_ in gathered], self.job.processes_of_rank),
            verification=_verification(self.job, losses, expected, errors) if self.job.verify else None,
            aa_check=aa_report([audit for *_, audit in gathered]) if self.aa else None,
            rehearsals_ns=rehearsals,
            conditions=worst_conditions([conditions for *_, conditions, _ in gathered]),
        )

    def _news(self, step: int, loss: Tensor | None, step_ns: int) -> StepReport | None:
        """Return what a step is reported with where the loss is; every rank calls it."""
        evaluated = self._evaluated() if self.files.is_evaluated(step + 1) else None
        news = None if loss is None else StepReport(step=step, loss=float(loss), step_ns=step_ns, eval_loss=evaluated)
        if not self.files.shows_metrics:
            return news
        memory = torch.tensor(most_memory_bytes(self.device), device=self.device)
        dist.all_reduce(memory, op=dist.ReduceOp.MAX)
        return news and replace(
            news,
            tokens_per_s=self.job.num_samples * self.job.input_length / (step_ns / 1e9),
            peak_share=None if self.seconds_at_peak is None else self.seconds_at_peak / (step_ns / 1e9),
            memory_bytes=int(memory),
        )

    def _evaluated(self) -> float | None:
        """Return the mean loss of the data to evaluate on, where the loss is."""
        if not self.eval_batches:
            data = self._opened(self.files.eval_data, option="--eval-data")
            count = self.job.num_samples
            self.eval_batches = [self._on_device(data.samples(place * count, count)) for place in range(EVAL_BATCHES)]
        losses = [self.pipe.evaluate(self._own(batch)) for batch in self.eval_batches]
        found = [loss for loss in losses if loss is not None]
        return float(torch.stack(found).mean()) if found else None

    def _is_measured(self, step: int) -> bool:
        """Whether a step is behind those that warm up."""
        return step - self.files.first_step >= WARM_UP_STEPS

    def _pipeline(self, rank_timeout_s: float) -> Pipeline:
        schedule = schedule_of(self.job.plan)
        own = [stage for stage in cut(self.model, self.job.plan, schedule) if stage.rank == self.rank]
        parts = [part for stage in own for part in stage.parts]
        materialise(self.model, parts, seed=self.job.seed, device=self.device)
        pipe = pipeline(
            self.job.plan,
            self.model,
            next_token_loss,
            self._own(self._example()),
            mesh=self._mesh(),
            mesh_plan=self.job.mesh_plan,
            host_link=self.job.host_link,
            device=self.device,
            seed=self.job.seed,
            rank_timeout_s=rank_timeout_s,
        )
        pipe.observe(self.recorder)
        return pipe

    def _mesh(self) -> DeviceMesh | None:
        """Return the processes as pipelines side by side; None where there is one."""
        if self.job.data_parallel == 1:
            return None
        sizes = self.job.num_processes // self.job.data_parallel, self.job.data_parallel
        replicas = SHARDED[0] if self.job.mesh_plan is None else REPLICATED
        return init_device_mesh(self.device.type, sizes, mesh_dim_names=(PIPELINE, replicas))

    def _own(self, batch: Batch) -> Batch:
        """Return the samples of a batch that are this pipeline's."""
        count = self.job.data_parallel
        inputs, targets = (tensor.chunk(count)[dist.get_rank() % count] for tensor in batch)
        return inputs, targets

    def _aa_check(self, calibration: MeasuredCosts, tell: Report) -> AARun:
        checks = checks_of_rank(self.pipe, calibration, everywhere=self.job.aa_everywhere)
        return AARun(self.pipe, checks, faults=self.job.faults, clock_offset_ns=self.clock_offset_ns, tell=tell)

    def _step(self, step: int, batch: Batch, optimizer: torch.optim.Optimizer) -> tuple[Tensor | None, int, int]:
        """Run one step; return loss (where the last stage is), time, and highest memory if this step measures it.

        All ranks begin together, as in the simulation.
        """
        optimizer.zero_grad(set_to_none=False)  # gradients keep their memory, so that a step's peak is every step's
        dist.barrier()
        self.recorder.start_step()
        start_ns = time.perf_counter_ns()
        if step != self.files.first_step + WARM_UP_STEPS - 1:
            with self.load.watched() if self._is_measured(step) else nullcontext():
                loss = self._run(step, batch)
                synchronize(self.device)
            return loss, time.perf_counter_ns() - start_ns, 0
        gradients = [parameter.grad for parameter in self.pipe.parameters() if parameter.grad is not None]
        held = [*self._parameters(), *gradients, *_state(optimizer)]
        with memory_meter(self.device, [*held, *batch]) as meter:
            start = meter.live_bytes
            loss = self._run(step, batch)
            peak = meter.peak_bytes - start
        synchronize(self.device)
        return loss, time.perf_counter_ns() - start_ns, peak + sum(local_part(tensor).nbytes for tensor in held)

    def _run(self, step: int, batch: Batch) -> Tensor | None:
        if self.aa is None:
            return self.pipe.step(self._own(batch))
        return self.aa.step(self._own(batch), check=self.job.has_aa_checks(step), measure=self._is_measured(step))

    def _static_bytes(self, optimizer: torch.optim.Optimizer) -> int:
        """Return the bytes of parameters, gradients and optimizer state.

        Replicas that share parameters have them and their gradients whole beside, until the last backward.
        """
        parameters = sum(2 * local_part(parameter).nbytes for parameter in self._parameters())
        if self.pipe.replicas.is_sharded:
            parameters += sum(2 * parameter.nbytes for parameter in self._parameters())
        return parameters + sum(local_part(tensor).nbytes for tensor in _state(optimizer))

    def _parameters(self) -> list[nn.Parameter]:
        """Return the parameters that compute, and those that are updated where these are others."""
        computing = [parameter for stage in self.pipe.stages for parameter in stage.submod.parameters()]
        return list({id(parameter): parameter for parameter in (*computing, *self.pipe.parameters())}.values())

    def _unsplit(self) -> Unsplit:
        model = build_model(self.job)
        materialise(model, list(model.parts), seed=self.job.seed, device=self.device)
        if self.job.mesh_plan is not None:
            limit_as_planned(model, self.job.mesh_plan)
        return Unsplit(model, next_token_loss, self._optimizer, seed=self.job.seed)

    def _optimizer(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, lr=self.job.learning_rate)

    def _opened(self, names: Sequence[str], *, option: str = "--data") -> TrainingData:
        return open_data(
            names,
            length=self.job.sequence_length,
            vocabulary=self.model.whole.config.vocab_size,
            tokenizer=self.files.tokenizer,
            seed=self.job.seed,
            option=option,
        )

    def _on_device(self, samples: Tensor) -> Batch:
        """Return samples [batch, length + 1] as tokens and those behind them."""
        inputs, targets = samples[:, :-1].contiguous(), samples[:, 1:].contiguous()
        if self.device.type == "cuda":
            inputs, targets = inputs.pin_memory(), targets.pin_memory()
        return inputs.to(self.device, non_blocking=True), targets.to(self.device, non_blocking=True)

    def _batch(self, step: int) -> Batch:
        if self.data is not None:
            count = self.job.num_samples
            return self._on_device(self.data.samples(step * count, count))
        return self._counting(step)

    def _example(self) -> Batch:
        """Return a batch of the same shape that takes nothing of the data."""
        return self._counting(0)

    def _counting(self, step: int) -> Batch:
        return tokens(
            seed=self.job.seed,
            step=step,
            batch=self.job.num_samples,
            length=self.job.input_length,
            target_length=self.job.target_length,
            vocabulary=self.model.whole.config.vocab_size,
            device=self.device,
        )


def by_rank(devices: Sequence[RankResult], devices_of_rank: Sequence[Sequence[int]]) -> list[RankResult]:
    """Return a result per rank of the pipeline: actions of its first device, memory of its fullest one."""
    return [
        replace(
            devices[own[0]],
            static_bytes=max(devices[device].static_bytes for device in own),
            working_bytes=max(devices[device].working_bytes for device in own),
            peak_bytes=max(devices[device].peak_bytes for device in own),
        )
        for own in devices_of_rank
    ]


def _state(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]


def _verification(
    job: RunJob, losses: Sequence[float], expected: Sequence[float], errors: Sequence[tuple[float, str]]
) -> Verification:
    gradient, worst = max(errors)
    return Verification(
        loss_error=loss_error(losses, expected),
        gradient_error=gradient,
        worst_parameter=worst,
        tolerance=TOLERANCES[job.dtype],
    )
