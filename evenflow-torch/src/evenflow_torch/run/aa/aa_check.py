"""The A/A check: work of a rank done twice and compared bit for bit, the second time in its bubbles.

    forward    the stage's module once more on the input it had, with the same random numbers, against its output
    backward   the graph of the backward is kept, and run once more with the gradient that came, against the gradients
               of the input and of every parameter, which are set apart from those of other microbatches
    message    checksums of what was handed over and of what arrived
    update     the optimizer once more, on copies of some parameters
    layer      the next rank once more, now and then and when there is a suspicion: it sees what is stuck

Both results come from the same kernels on the same data. So every difference is a fault, of a device, of a link or of a
kernel that is not deterministic.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from evenflow.aa import Check, Direction, RankChecks
from evenflow.cluster import BoxMessage
from evenflow.language import _
from evenflow.schedule import Action, Op
from evenflow_torch.run.aa.bits import flip_bit, num_different
from evenflow_torch.run.aa.message_check import MessageCheck, direction_of
from evenflow_torch.run.aa.neighbour import NEIGHBOUR_PERIOD, NeighbourCheck, first_tensor
from evenflow_torch.run.aa.restored_state import Gradients, named_parameters, random_state, restored, set_apart
from evenflow_torch.run.aa.update_check import UpdateCheck, update_slices
from evenflow_torch.run.assembly.batches import Batch
from evenflow_torch.run.assembly.pipeline import Pipeline
from evenflow_torch.run.engine.hooks import Hook, insert_hooks
from evenflow_torch.run.engine.runtime_stage import RuntimeStage, take_gradient
from evenflow_torch.run.engine.torch_names import kept_of
from evenflow_torch.run.measure.recorder import Recorder, synchronize
from evenflow_torch.run.replicas.gathered_again import gather, whole
from evenflow_torch.run.values.aa_report import Evidence, Fault, FaultKind, Mismatch, RankAudit

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
    gradient: Tensor | None
    """Gradient that came from the next stage, when the backward has ended; that of the loss is one."""
    hidden: Tensor
    hidden_gradient: Tensor | None = None
    parts: list[Gradients] = field(default_factory=list)
    """Gradients of the parameters; two parts where the backward is split."""


class AACheck:
    """Checks the work of this rank in the steps that it is asked to. Make one before the first of them.

    Every rank makes one, and every rank runs the same steps with checks. `checks` says what is checked where: this
    rank's element of `evenflow.run.plan_checks`. Each of `faults`, at most one a step, flips bits of this rank's
    results, to see that it is found.
    """

    def __init__(self, pipe: Pipeline, checks: RankChecks, *, faults: Sequence[Fault] = ()) -> None:
        self._pipe = pipe
        self._checks = checks
        self._faults = {fault.step: fault for fault in faults}
        self._stages = {stage.stage_index: stage for stage in pipe.stages}
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
        self._messages = MessageCheck(pipe)
        self._injected = self._messages.injected
        self._num_new = 0
        """Mismatches that the other ranks do not know of yet."""
        trained = [(name, parameter) for name, parameter in pipe.named_parameters() if parameter.requires_grad]
        sizes = [parameter.numel() for _, parameter in trained]
        self._slices = [[trained[index] for index in one] for one in update_slices(sizes)]
        self._update_fault: Fault | None = None
        self._num_updates = 0
        self._update_ns: list[int] = []
        self._neighbour = NeighbourCheck(pipe)
        self._exchanges_due = 0
        self._exchange_ns: list[int] = []
        self.exchange_ns = 0
        """Time that the last step spent with the neighbours, after the step itself."""
        self._num_neighbour_checks = 0
        self._without_neighbour: set[str] = set()
        for stage in pipe.stages:
            stage.witness = self
        insert_hooks(pipe.runtime, [Hook(after=action, run=self._hook(action)) for action in checks.hosts])

    def step(self, batch: Batch, *, check: bool = True) -> Tensor | None:
        """Run a step of the pipeline; with `check`, the checks of the next turn are done in it."""
        self._finish_messages()
        turn = len(self._check_ns)
        now = self._checks.turn(turn) if check else ()
        self._messages.is_checked = check
        self._prepare(now)
        is_due = turn % NEIGHBOUR_PERIOD == 0 or self._exchanges_due > 0
        exchanges = check and is_due and self._neighbour.num_turns > 0
        if exchanges:
            self._neighbour.listen(len(self._exchange_ns), self._pipe.num_steps)
        try:
            loss = self._pipe.step(batch)
        finally:
            self._wanted.clear()
            self._forwards.clear()
            self._backwards.clear()
            self._due.clear()
            self._messages.fault = None
        self.exchange_ns = 0
        if check:
            self._check_ns.append(sum(end - start for *_, start, end in self._recorder.rows()))
            self._collect()
            self._messages.start(self._num_new)
            self._num_new = 0
        if exchanges:
            self._ask_neighbour()
        return loss

    def update(self, optimizer: torch.optim.Optimizer, *, check: bool = True) -> None:
        """Do ``optimizer.step()``; with `check`, the updates of the next parameters are done again and compared."""
        fault, self._update_fault = self._update_fault, None
        if not check or not self._slices:
            optimizer.step()
            return
        synchronize(self._pipe.stages[0].device)
        start_ns = time.perf_counter_ns()
        again = UpdateCheck(optimizer, self._slices[len(self._update_ns) % len(self._slices)])
        synchronize(self._pipe.stages[0].device)
        taken_ns = time.perf_counter_ns() - start_ns
        optimizer.step()
        if fault is not None and again.parameters:
            name, parameter = again.parameters[0]
            flip_bit(parameter)
            self._injected.append(_("the update of {name}, step {step}", name=name, step=fault.step + 1))
        start_ns = time.perf_counter_ns()
        compared = again.compare()
        numbers = torch.stack([count for _name, count in compared]).tolist() if compared else []
        self._update_ns.append(taken_ns + time.perf_counter_ns() - start_ns)
        self._num_updates += len(again.parameters)
        for (name, _count), number in zip(compared, numbers, strict=True):
            if number:
                self._differs(tensor=name, evidence=Evidence.UPDATE, num_different=number)

    @property
    def mismatches(self) -> tuple[Mismatch, ...]:
        """Mismatches of all steps so far."""
        self._finish_messages()
        return tuple(self._mismatches)

    def audit(self) -> RankAudit:
        """Return what was checked on this rank in all steps so far."""
        self._finish_messages()
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
            rotation_steps=len(self._checks.rotation),
            num_messages=self._messages.num_received,
            num_updates=self._num_updates,
            update_steps=len(self._slices),
            update_ns=round(sum(self._update_ns) / max(1, len(self._update_ns))),
            num_neighbour_checks=self._num_neighbour_checks,
            neighbour_steps=NEIGHBOUR_PERIOD * self._neighbour.num_turns,
            neighbour_ns=round(sum(self._exchange_ns) / max(1, len(self._exchange_ns))),
            without_neighbour=sorted(self._without_neighbour),
        )

    @contextmanager
    def computing(self, op: Op, stage: RuntimeStage, microbatch: int, loss: Tensor | None = None) -> Iterator[None]:
        """Keep what a check or a fault needs; see `evenflow_torch.run.engine.runtime_stage.Witness`."""
        self._messages.taken(op, stage, microbatch)
        self._neighbour.computing = (stage.stage_index, microbatch) if op is Op.F else None
        with self._repeatable(op, stage, microbatch, loss):
            yield
        self._neighbour.computing = None
        self._messages.handed_over(op, stage, microbatch)

    def crossing(
        self, op: Op, receiver: int, microbatch: int, number: int, message: BoxMessage, tensor: Tensor
    ) -> None:
        """Note a message between stages on several devices; see `evenflow_torch.run.engine.runtime_stage.Witness`."""
        self._messages.crossing(op, receiver, microbatch, number, message, tensor)

    @contextmanager
    def _repeatable(self, op: Op, stage: RuntimeStage, microbatch: int, loss: Tensor | None) -> Iterator[None]:
        key = (stage.stage_index, microbatch, direction_of(op))
        is_faulty = key == self._faulty
        if key not in self._wanted and not is_faulty:
            yield
        elif op is Op.F:
            state = random_state(stage) if stage.submod.seed is None else None
            yield
            (output,), (hidden, *_) = kept_of(stage, microbatch)
            if is_faulty:
                flip_bit(output)
            self._forwards[key[:2]] = _Forward(hidden=hidden, output=output.detach(), random_state=state)
        elif op is Op.W:
            gradients: Gradients = {}
            gather(stage)
            with set_apart(dict(named_parameters(stage)), gradients):
                yield
            if key[:2] in self._backwards:  # else nothing is trained up to here
                self._backwards[key[:2]].parts.append(gradients)
        else:
            with self._keeping(op, stage, microbatch, loss, is_faulty=is_faulty):
                yield

    @contextmanager
    def _keeping(
        self, op: Op, stage: RuntimeStage, microbatch: int, loss: Tensor | None, *, is_faulty: bool
    ) -> Iterator[None]:
        """Keep the graph of a backward or input gradient, and its results."""
        (output,), (hidden, *_) = kept_of(stage, microbatch)
        root = output if loss is None else loss
        if not root.requires_grad:  # nothing to train up to here
            yield
            return
        gradient = None if loss is None else torch.ones_like(root)
        kept = _Backward(root=torch.autograd.graph.get_gradient_edge(root), gradient=gradient, hidden=hidden)
        del output, root
        gradients: Gradients = {}
        gather(stage)
        parameters = dict(named_parameters(stage))
        stage.keeps_graph = True
        try:
            with set_apart(parameters, gradients):
                yield
                if loss is None:
                    kept.gradient = stage.grad_recv_info[microbatch][0].buffer
                (kept.hidden_gradient,) = stage.bwd_cache[microbatch]
                if is_faulty:
                    own = (parameter.grad for parameter in parameters.values())
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
        self._faulty = None
        if fault is None:
            return
        if fault.kind is FaultKind.PRODUCT:
            self._faulty = self._place_of(fault, checks)
        elif fault.kind is FaultKind.MESSAGE:
            self._messages.fault = fault
        elif fault.kind is FaultKind.UPDATE:
            self._update_fault = fault
        else:
            self._stick(fault)

    def _stick(self, fault: Fault) -> None:
        """Spoil every forward of every layer on this device from now on, whoever's work it does."""

        def spoil(_module: Any, _arguments: Any, output: Any) -> None:
            flip_bit(first_tensor(output).detach())

        for stage in self._stages.values():
            for part in stage.submod.parts:
                part.module.register_forward_hook(spoil)
        self._injected.append(_("every forward from step {step} on", step=fault.step + 1))

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
                with whole(self._stages[check.stage], self._pipe.runtime):
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
        parameters = dict(named_parameters(stage))
        split = len(kept.parts) > 1
        parts: list[Gradients] = [{}, {}] if split else [{}]
        with set_apart(parameters, parts[0], merge=False):
            torch.autograd.backward([kept.root], [kept.gradient])
            weights = stage.dw_builder() if stage.dw_builder is not None else None
            if weights is not None and not split:
                weights()
        stage.backward_ended_alone()
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
                count = torch.tensor((first[name] if name in first else second[name]).numel())
            self._found.append((check, name, count))

    def _collect(self) -> None:
        """Read the results of a step's comparisons from the device, all at once."""
        if not self._found:
            return
        numbers = torch.stack([count.to(self._found[0][2].device) for _check, _name, count in self._found]).tolist()
        for (check, name, _count), number in zip(self._found, numbers, strict=True):
            if number:
                self._differs(
                    stage=check.stage,
                    microbatch=check.microbatch,
                    direction=check.direction,
                    tensor=name,
                    num_different=number,
                )
        self._found.clear()

    def _finish_messages(self) -> None:
        """Compare the messages of the last step, and learn whether any rank has seen anything.

        What the ranks of another pipeline have seen in messages is known one step with checks later.
        """
        differing, num_seen = self._messages.finish()
        for (direction, stage, microbatch, _number), sender in differing:
            if sender is not None:
                self._differs(
                    stage=stage, microbatch=microbatch, direction=direction, tensor="message",
                    evidence=Evidence.MESSAGE, other_rank=sender,
                )  # fmt: skip
        if num_seen or (differing and self._pipe.replicas.count == 1):
            self._exchanges_due = self._neighbour.num_turns

    def _ask_neighbour(self) -> None:
        """Do a layer of the rank before again, and note whether it comes out as there."""
        start_ns = time.perf_counter_ns()
        compared = self._neighbour.compare()
        self.exchange_ns = time.perf_counter_ns() - start_ns
        self._exchange_ns.append(self.exchange_ns)
        self._exchanges_due = max(0, self._exchanges_due - 1)
        if compared is None:
            return
        if compared.differs is None:
            if self._pipe.replicas.count == 1:  # else a replica has one like it
                self._without_neighbour.add(compared.layer)
            return
        self._num_neighbour_checks += 1
        if compared.differs:
            self._differs(
                rank=compared.rank, microbatch=compared.microbatch, tensor=compared.layer,
                evidence=Evidence.NEIGHBOUR, other_rank=dist.get_rank(),
            )  # fmt: skip

    def _differs(self, **fields: Any) -> None:
        mismatch = Mismatch(**{"rank": dist.get_rank(), "step": self._pipe.num_steps - 1, **fields})
        self._mismatches.append(mismatch)
        self._num_new += 1

    def _num_actions(self, stage: int, direction: Direction, microbatch: int) -> int:
        """Return how many actions of the order a check is about: two for a backward that the order splits."""
        is_split = Action(stage, Op.W, microbatch) in self._checks.order
        return 2 if direction is Direction.BACKWARD and is_split else 1


def measure_compare_ns(pipe: Pipeline, stage: RuntimeStage) -> int:
    """How long it takes to compare the gradients of a stage's parameters; all its replicas call it."""
    recorder = Recorder(stage.device)
    recorder.start_step()
    with whole(stage, pipe.runtime):
        parameters = list(stage.submod.parameters())
        for _time in range(3):
            recorder.begin(Op.B, stage.stage_index, 0)
            for parameter in parameters:
                num_different(parameter, parameter)
            recorder.end()
    return min(end - start for *_, start, end in recorder.rows())
