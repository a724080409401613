"""The A/A check: work of a rank done twice and compared bit for bit, the second time in its bubbles.

    forward    the stage's module once more on the input it had, with the same random numbers, against its output
    backward   the graph of the backward is kept, and run once more with the gradient that came, against the gradients
               of the input and of every parameter, which are set apart from those of other microbatches

Both results come from the same kernels on the same data on the same device. So every difference is a fault, of the
device or of a kernel that is not deterministic.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from evenflow.aa import Check, Direction, RankChecks
from evenflow.schedule import Action, Op
from evenflow_torch.run.aa.bits import flip_bit, num_different
from evenflow_torch.run.aa.restored_state import Gradients, named_parameters, random_state, restored, set_apart
from evenflow_torch.run.assembly.pipeline import Batch, Pipeline
from evenflow_torch.run.engine.hooks import Hook, insert_hooks
from evenflow_torch.run.engine.runtime_stage import RuntimeStage, take_gradient
from evenflow_torch.run.measure.recorder import Recorder
from evenflow_torch.run.values.aa_report import Fault, Mismatch, RankAudit

_Found = tuple[Check, str, Tensor]
"""A check, the name of a tensor, and how many of its numbers differ."""


@dataclass(slots=True)
class _Forward:
    hidden: Tensor
    output: Tensor
    random_state: Tensor | None


@dataclass(slots=True)
class _Backward:
    root: Any
    gradient: Tensor
    """Gradient that came from the next stage."""
    hidden: Tensor
    hidden_gradient: Tensor | None = None
    parts: list[Gradients] = field(default_factory=list)
    """Gradients of the parameters; two parts where the backward is split."""


class AACheck:
    """Checks the work of this rank in the steps that it is asked to. Make one before the first of them.

    `checks` says what is checked where: this rank's element of `evenflow_torch.run.aa.plan_checks.plan_checks`. Each of
    `faults`, at most one a step, flips one bit of this rank's results, to see that it is found.
    """

    def __init__(self, pipe: Pipeline, checks: RankChecks, *, faults: Sequence[Fault] = ()) -> None:
        self._pipe = pipe
        self._checks = checks
        self._faults = {fault.step: fault for fault in faults}
        self._stages = {stage.stage_index: stage for stage in pipe.stages}
        self._parameters = {index: dict(named_parameters(stage)) for index, stage in self._stages.items()}
        self._recorder = Recorder(pipe.stages[0].device)
        self._wanted: set[tuple[int, int, Direction]] = set()
        self._faulty: tuple[int, int, Direction] | None = None
        self._forwards: dict[tuple[int, int], _Forward] = {}
        self._backwards: dict[tuple[int, int], _Backward] = {}
        self._due: dict[Action, list[Check]] = {}
        self._found: list[_Found] = []
        self._times_checked: Counter[tuple[int, Direction, int]] = Counter()
        self._check_ns: list[int] = []
        self._mismatches: list[Mismatch] = []
        self._injected: list[str] = []
        for stage in pipe.stages:
            stage.witness = self
        insert_hooks(pipe.runtime, [Hook(after=action, run=self._hook(action)) for action in checks.hosts])

    def step(self, batch: Batch, *, check: bool = True) -> Tensor | None:
        """Run a step of the pipeline; with `check`, the checks of the next turn are done in it."""
        now = self._checks.turn(len(self._check_ns)) if check else ()
        self._prepare(now)
        try:
            loss = self._pipe.step(batch)
        finally:
            self._wanted.clear()
            self._forwards.clear()
            self._backwards.clear()
            self._due.clear()
        if check:
            self._check_ns.append(sum(end - start for *_, start, end in self._recorder.rows()))
            self._collect()
        return loss

    @property
    def mismatches(self) -> tuple[Mismatch, ...]:
        """Mismatches of all steps so far."""
        return tuple(self._mismatches)

    def audit(self) -> RankAudit:
        """Return what was checked on this rank in all steps so far."""
        actions = Counter({item: self._num_actions(*item) for item in self._times_checked})
        number = len(self._checks.order)
        turns = max(1, len(self._check_ns))
        done = sum(count * actions[item] for item, count in self._times_checked.items())
        return RankAudit(
            num_checks=self._times_checked.total(),
            share_per_step=done / turns / number,
            share_of_run=sum(actions.values()) / number,
            check_ns=round(sum(self._check_ns) / turns),
            never_checked=sorted(set(self._checks.items) - {item[:2] for item in self._times_checked}),
            fits_no_bubble=list(self._checks.uncovered),
            mismatches=list(self._mismatches),
            injected=list(self._injected),
        )

    @contextmanager
    def computing(self, op: Op, stage: RuntimeStage, microbatch: int, loss: Tensor | None = None) -> Iterator[None]:
        """Keep what a check or a fault needs; see `evenflow_torch.run.engine.runtime_stage.Witness`."""
        direction = Direction.FORWARD if op is Op.F else Direction.BACKWARD
        key = (stage.stage_index, microbatch, direction)
        is_faulty = key == self._faulty
        if key not in self._wanted and not is_faulty:
            yield
        elif op is Op.F:
            state = random_state(stage) if stage.submod.seed is None else None
            yield
            (output,), (hidden, *_) = stage.fwd_cache[microbatch]
            if is_faulty:
                flip_bit(output)
            self._forwards[key[:2]] = _Forward(hidden=hidden, output=output.detach(), random_state=state)
        elif op is Op.W:
            gradients: Gradients = {}
            with set_apart(self._parameters[stage.stage_index], gradients):
                yield
            self._backwards[key[:2]].parts.append(gradients)
        else:
            with self._keeping(op, stage, microbatch, loss, is_faulty=is_faulty):
                yield

    @contextmanager
    def _keeping(
        self, op: Op, stage: RuntimeStage, microbatch: int, loss: Tensor | None, *, is_faulty: bool
    ) -> Iterator[None]:
        """Keep the graph of a backward or input gradient, and its results."""
        (output,), (hidden, *_) = stage.fwd_cache[microbatch]
        root = output if loss is None else loss
        if not root.requires_grad:  # nothing to train up to here
            yield
            return
        gradient = torch.ones_like(root) if loss is not None else stage.grad_recv_info[microbatch][0].buffer
        kept = _Backward(root=torch.autograd.graph.get_gradient_edge(root), gradient=gradient, hidden=hidden)
        del output, root
        gradients: Gradients = {}
        stage.keeps_graph = True
        try:
            with set_apart(self._parameters[stage.stage_index], gradients):
                yield
                (kept.hidden_gradient,) = stage.bwd_cache[microbatch]
                if is_faulty:
                    own = (parameter.grad for parameter in self._parameters[stage.stage_index].values())
                    flip_bit(next(grad for grad in (kept.hidden_gradient, *own) if grad is not None))
        finally:
            stage.keeps_graph = False
        kept.parts.append(gradients)
        self._backwards[stage.stage_index, microbatch] = kept

    def _prepare(self, checks: Sequence[Check]) -> None:
        self._recorder.start_step()
        for check in checks:
            self._due.setdefault(check.after, []).append(check)
            self._wanted.add((check.stage, check.microbatch, check.direction))
        fault = self._faults.get(self._pipe.num_steps)
        self._faulty = self._place_of(fault, checks) if fault is not None else None

    def _place_of(self, fault: Fault, checks: Sequence[Check]) -> tuple[int, int, Direction]:
        """Choose the place of a fault: in work that is checked, unless it was asked for elsewhere."""
        for check in checks:
            if fault.microbatch in (None, check.microbatch) and fault.direction in (None, check.direction):
                place = check.stage, check.microbatch, check.direction
                break
        else:
            place = next(iter(self._stages)), fault.microbatch or 0, Direction(fault.direction or Direction.FORWARD)
        stage, microbatch, direction = place
        is_checked = (stage, microbatch, direction) in self._wanted
        self._injected.append(
            f"stage {stage}, microbatch {microbatch}, step {fault.step + 1}, {direction}, which "
            f"{'was' if is_checked else 'was not'} checked"
        )
        return place

    def _hook(self, action: Action) -> Any:
        def run(_runtime: Any) -> None:
            for check in self._due.get(action, ()):
                forward = check.direction is Direction.FORWARD
                self._recorder.begin(Op.F if forward else Op.B, check.stage, check.microbatch)
                (self._repeat_forward if forward else self._repeat_backward)(check)
                self._recorder.end()
                self._times_checked[check.stage, check.direction, check.microbatch] += 1

        return run

    def _repeat_forward(self, check: Check) -> None:
        stage = self._stages[check.stage]
        kept = self._forwards.pop((check.stage, check.microbatch))
        stage.submod.microbatch = check.microbatch
        # With gradients enabled, as the first time: some kernels are others without.
        with restored(stage, kept.random_state):
            again = stage.submod(kept.hidden)
            first, second = {"output": kept.output}, {"output": again.detach()}
            if stage.is_last:
                first["loss"], second["loss"] = self._pipe.runtime.repeat_loss(check.microbatch, again)
        self._compare(check, first, second)

    def _repeat_backward(self, check: Check) -> None:
        stage = self._stages[check.stage]
        kept = self._backwards.pop((check.stage, check.microbatch), None)
        if kept is None:
            return
        parameters = self._parameters[check.stage]
        split = len(kept.parts) > 1
        parts: list[Gradients] = [{}, {}] if split else [{}]
        with set_apart(parameters, parts[0], merge=False):
            torch.autograd.backward([kept.root], [kept.gradient])
            weights = stage.dw_builder() if stage.dw_builder is not None else None
            if weights is not None and not split:
                weights()
        if weights is not None and split:
            with set_apart(parameters, parts[1], merge=False):
                weights()
        name = "gradient of the input"
        hidden_gradient = take_gradient(kept.hidden)
        if hidden_gradient is not None and kept.hidden_gradient is not None:
            self._compare(check, {name: kept.hidden_gradient}, {name: hidden_gradient})
        for first, second in zip(kept.parts, parts, strict=True):
            self._compare(check, first, second)

    def _compare(self, check: Check, first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> None:
        for name in {**first, **second}:
            if name in first and name in second:
                count = num_different(first[name], second[name])
            else:
                count = torch.tensor((first.get(name, second.get(name))).numel())
            self._found.append((check, name, count))

    def _collect(self) -> None:
        """Read the results of a step's comparisons from the device, all at once."""
        if not self._found:
            return
        numbers = torch.stack([count.to(self._found[0][2].device) for *_, count in self._found]).tolist()
        for (check, name, _), number in zip(self._found, numbers, strict=True):
            if number:
                self._mismatches.append(
                    Mismatch(
                        rank=dist.get_rank(),
                        stage=check.stage,
                        microbatch=check.microbatch,
                        step=self._pipe.num_steps - 1,
                        direction=check.direction,
                        tensor=name,
                        num_different=number,
                    )
                )
        self._found.clear()

    def _num_actions(self, stage: int, direction: Direction, microbatch: int) -> int:
        """Return how many actions of the order a check is about: two for a backward that the order splits."""
        is_split = Action(stage, Op.W, microbatch) in self._checks.order
        return 2 if direction is Direction.BACKWARD and is_split else 1


def measure_compare_ns(stage: RuntimeStage) -> int:
    """How long it takes to compare the gradients of a stage's parameters."""
    parameters = list(stage.submod.parameters())
    recorder = Recorder(stage.device)
    recorder.start_step()
    for _ in range(3):
        recorder.begin(Op.B, stage.stage_index, 0)
        for parameter in parameters:
            num_different(parameter, parameter)
        recorder.end()
    return min(end - start for *_, start, end in recorder.rows())
