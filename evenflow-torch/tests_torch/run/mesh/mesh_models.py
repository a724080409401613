"""Stages of a small Llama on meshes, with placements as people write them."""

import logging
import shutil
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.tensor import DTensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional
from transformers import LlamaForCausalLM

from evenflow.cluster import split_along
from evenflow.cluster.cluster import Cluster, Link
from evenflow.cluster.layout import TensorLayout
from evenflow.cluster.mesh_plan import AttentionOnMesh, MeshPlan, Product, RowExchange, StageOnMesh
from evenflow.cluster.placement import PARTIAL, REPLICATE, Placement
from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.schedule import Op, schedule_of
from evenflow_torch.models.parts import ModelRow
from evenflow_torch.models.rows import as_row
from evenflow_torch.run import Pipeline, pipeline
from evenflow_torch.run.aa.aa_check import AACheck
from evenflow_torch.run.engine.stages import cut
from evenflow_torch.run.job.models import norm_in_float64
from evenflow_torch.run.measure.verify import Unsplit, gathered_gradients
from evenflow_torch.run.mesh import mesh_parameters, moving
from evenflow_torch.run.mesh.gathered import GatheredLayers, GatheredParameter
from evenflow_torch.run.mesh.moving import Moving
from tests_torch.auto import fused_models
from tests_torch.run.aa.aa_models import checks_of
from tests_torch.run.cases import NUM_STEPS, Answer
from tests_torch.run.models import VOCABULARY, llama, loss_fn
from tests_torch.run.replicas.loop_cases import PADDING, num_tokens, sum_over_tokens

SAMPLES, LENGTH, HIDDEN = 4, 6, 16
COLUMN = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "lm_head")
ROW = ("o_proj", "down_proj")

DATA, TENSOR, SEQUENCE, SHARDED, CONTEXT = "data", "tensor", "sequence", "sharded data", "context"
"""What an axis is for: samples, heads and widths, the same with positions split between layers, samples and all
parameters, positions everywhere."""


@dataclass(frozen=True, kw_only=True)
class On:
    """Devices of one rank, and what each axis of their mesh is for."""

    devices: tuple[int, ...]
    mesh: tuple[int, ...]
    axes: tuple[str, ...]


def cluster(num_devices: int) -> Cluster:
    return Cluster(
        num_nodes=max(1, num_devices // 2),
        devices_per_node=min(2, num_devices),
        memory_bytes=2**30,
        intra=Link(bytes_per_s=10**10),
        inter=Link(bytes_per_s=10**7),
    )


def mesh_plan(
    plan: Plan,
    model: ModelRow,
    ranks: Sequence[On],
    *,
    with_products: bool = True,
    sums_parts: bool = False,
    rows: RowExchange | None = None,
) -> MeshPlan:
    stages = cut(model, plan, schedule_of(plan))
    found = []
    for stage in stages:
        where = ranks[stage.rank]
        names = {
            name: parameter
            for part in stage.parts
            for name, parameter in part.module.named_parameters(prefix=part.path, remove_duplicate=False)
        }
        hidden = tuple({TENSOR: REPLICATE, SEQUENCE: 1, CONTEXT: 1}.get(axis, 0) for axis in where.axes)
        tokens = tuple({TENSOR: REPLICATE, SEQUENCE: REPLICATE, CONTEXT: 1}.get(axis, 0) for axis in where.axes)

        def layout(where: On, shape: tuple[int, ...], placement: Placement) -> TensorLayout:
            return TensorLayout(shape=shape, item_bytes=8, mesh=where.mesh, placement=placement, devices=where.devices)

        found.append(
            StageOnMesh(
                rank=stage.rank,
                input=layout(where, (SAMPLES, LENGTH), tokens)
                if stage.index == 0
                else layout(where, (SAMPLES, LENGTH, HIDDEN), hidden),
                output=None if stage is stages[-1] else layout(where, (SAMPLES, LENGTH, HIDDEN), hidden),
                parameters={
                    name: tuple(_of_parameter(name, axis, parameter.shape) for axis in where.axes)
                    for name, parameter in names.items()
                },
                gradients={
                    name: tuple(0 if axis in (DATA, SHARDED) else PARTIAL for axis in where.axes)
                    for name, parameter in names.items()
                    if sums_parts and parameter.shape[0] % len(where.devices) == 0
                },
                updates={
                    name: (0,) * len(where.axes)
                    for name, parameter in names.items()
                    if where.axes == (DATA,) and len(where.devices) > 1 and parameter.shape[0] % len(where.devices) == 0
                },
                gathered={
                    name: tuple(
                        REPLICATE if axis == SHARDED else _of_parameter(name, axis, parameter.shape)
                        for axis in where.axes
                    )
                    for name, parameter in names.items()
                    if SHARDED in where.axes
                },
                entries={part.path: hidden for part in stage.parts if "embed" not in part.path},
                products={
                    name.removesuffix(".weight"): _product(name, where.axes)
                    for name in names
                    if with_products and name.endswith(("proj.weight", "lm_head.weight"))
                },
                attention={
                    f"{part.path}.self_attn": AttentionOnMesh(
                        placement=tuple(_HEADS.get(axis, 0) for axis in where.axes), rows=rows, backward_rows=rows
                    )
                    for part in stage.parts
                    if rows is not None and hasattr(part.module, "self_attn")
                },
            )
        )
    return MeshPlan(cluster=cluster(sum(len(where.devices) for where in ranks)), stages=tuple(found))


_HEADS = {TENSOR: 1, SEQUENCE: 1, CONTEXT: 2}
"""What is split of queries [batch, heads, length, width]; otherwise the batch."""


def _of_parameter(name: str, axis: str, shape: tuple[int, ...]) -> int:
    if axis in (DATA, CONTEXT):
        return REPLICATE
    if axis == SHARDED:
        return 0
    if any(one in name for one in COLUMN):
        return 0
    if any(one in name for one in ROW):
        return 1
    return 0 if "embed" in name else REPLICATE


def _product(name: str, axes: tuple[str, ...]) -> Product:
    row = any(one in name for one in ROW)
    split = dict.fromkeys((TENSOR, SEQUENCE), (1, PARTIAL) if row else (REPLICATE, 1))
    positions = split_along(0, SAMPLES)  # of every sample
    split[CONTEXT] = positions, positions
    return Product(
        reads=tuple(split.get(axis, (0, 0))[0] for axis in axes),
        gives=tuple(split.get(axis, (0, 0))[1] for axis in axes),
    )


def mesh_case(
    plan: Plan,
    ranks: tuple[On, ...],
    rank: int,
    *,
    with_products: bool = True,
    sums_parts: bool = False,
    rows: RowExchange | None = None,
    **options: Any,
) -> Answer:
    """Two steps on the meshes against the unsplit model's gradients of the whole batch; gradients accumulate."""
    data = batch(plan)
    layered = as_row(model(plan, **options))
    where = mesh_plan(plan, layered, ranks, with_products=with_products, sums_parts=sums_parts, rows=rows)
    with warnings.catch_warnings(action="error", category=UserWarning):  # all weight gradients wait that should
        pipe = pipeline(plan, layered, loss_fn, data, mesh_plan=where)
    losses = [pipe.step(data) for _ in range(NUM_STEPS)]
    whole = model(plan, **options)
    expected = loss_fn(whole(data[0]).logits, data[1])
    (NUM_STEPS * expected).backward()
    answer = compared(pipe, whole, rank, last=losses[-1], expected=expected)
    wanted_norm = torch.nn.utils.get_total_norm([parameter.grad for parameter in whole.parameters()])
    norm_error = abs(float(pipe.clip_grad_norm_(float("inf")) / wanted_norm) - 1)
    return replace(answer, error=max(answer.error, norm_error), names=tuple(pipe.state_dict()))


def shapes_case(
    plan: Plan, ranks: tuple[On, ...], rank: int, *, shapes: Sequence[tuple[int, int]], is_checked: bool = False
) -> Answer:
    """Steps with microbatches of several shapes, trained and evaluated, against the unsplit model."""
    layered = as_row(model(plan))
    pipe = pipeline(plan, layered, loss_fn, batch(plan), mesh_plan=mesh_plan(plan, layered, ranks))
    check = AACheck(pipe, checks_of(pipe.schedule, pipe.rank)) if is_checked else None
    whole, losses, expected = model(plan), [], torch.zeros(())
    for shape in (*shapes, *shapes[:1]):
        data = batch(plan, *shape)
        losses.append(pipe.step(data) if check is None else check.step(data))
        expected = loss_fn(whole(data[0]).logits, data[1])
        expected.backward()
        evaluated = pipe.evaluate(data)
        if evaluated is not None:
            assert abs(float(evaluated / expected.detach()) - 1) < 1e-12
    answer = compared(pipe, whole, rank, last=losses[-1], expected=expected)
    return answer if check is None else replace(answer, found=check.mismatches)


def refused_shapes_case(plan: Plan, ranks: tuple[On, ...], rank: int) -> Answer:
    """What is said of shapes that the devices of the plan cannot share, on every device before anything runs."""
    layered = as_row(model(plan))
    pipe = pipeline(plan, layered, loss_fn, batch(plan), mesh_plan=mesh_plan(plan, layered, ranks))
    said = []
    for inputs, targets in (batch(plan, 3), batch(plan, SAMPLES, 5), tuple(one[:-1] for one in batch(plan))):
        with pytest.raises(InputError) as refusal:
            pipe.step((inputs, targets))
        said.append(str(refusal.value))
    return Answer(found=said)


def tokens_on_mesh_case(plan: Plan, ranks: tuple[On, ...], rank: int) -> Answer:
    """Padding, more on some devices than on others, and a microbatch of nothing else: the mean over all tokens."""
    inputs, targets = batch(plan)
    targets = targets.clone()
    for sample in range(len(targets)):
        targets[sample, sample % LENGTH :] = PADDING
    targets[:SAMPLES] = PADDING
    layered = as_row(model(plan))
    where = mesh_plan(plan, layered, ranks)
    pipe = pipeline(plan, layered, sum_over_tokens, (inputs, targets), mesh_plan=where, loss_weight=num_tokens)
    whole = model(plan)
    expected = functional.cross_entropy(whole(inputs).logits.flatten(0, 1), targets.flatten(), ignore_index=PADDING)
    expected.backward()
    return compared(pipe, whole, rank, last=pipe.step((inputs, targets)), expected=expected)


def compared(
    pipe: Pipeline, whole: nn.Module, rank: int, *, last: torch.Tensor | None, expected: torch.Tensor
) -> Answer:
    """Gradients and the last loss of a pipeline beside those of the unsplit model, and this device's share of it."""
    error, names = 0.0, set()
    for name, own in (gathered_gradients(pipe) or {}).items():
        wanted = whole.get_parameter(name).grad
        error = max(error, float((own - wanted).abs().max() / wanted.abs().max()))
        names.add(name)
    if rank == 0:
        missing = {name for name, _ in whole.named_parameters()} - names
        assert not missing, missing
    parts = sum(part.to_local().numel() for stage in pipe.stages for part in stage.submod.parameters())
    return Answer(
        error=error,
        loss_error=None if last is None else abs(float(last.detach() / expected.detach()) - 1),
        found=parts / sum(parameter.numel() for parameter in whole.parameters()),
    )


def row_model() -> nn.Sequential:
    torch.manual_seed(3)
    blocks = (nn.Sequential(nn.Linear(HIDDEN, 32), nn.GELU(), nn.Linear(32, HIDDEN)) for _ in range(4))
    return nn.Sequential(*blocks).double()


def planned_case(plan: Plan, where: MeshPlan, rank: int) -> Answer:
    """A row of modules on the stages that `evenflow.auto.plan` has chosen for it."""
    data = tuple(
        torch.randn(SAMPLES * plan.num_microbatches, HIDDEN, dtype=torch.float64, generator=generator)
        for generator in [torch.Generator().manual_seed(4)]
        for _ in range(2)
    )
    pipe = pipeline(plan, row_model(), functional.mse_loss, (data[0], data[1]), mesh_plan=where)
    last = pipe.step((data[0], data[1]))
    whole = row_model()
    expected = functional.mse_loss(whole(data[0]), data[1])
    expected.backward()
    gradients = gathered_gradients(pipe) or {}
    errors = [float((own - whole.get_parameter(name).grad).abs().max()) for name, own in gradients.items()]
    loss_error = None if last is None else abs(float(last.detach() / expected.detach()) - 1)
    return Answer(error=max(errors, default=0.0), loss_error=loss_error)


def fused_case(plan: Plan, where: MeshPlan, rank: int) -> Answer:
    """Blocks with one product for queries, keys and values on the stages that `evenflow.auto.plan` has chosen."""
    generator = torch.Generator().manual_seed(4)
    size = fused_models.SAMPLES * plan.num_microbatches, fused_models.LENGTH, fused_models.WIDTH
    inputs, targets = (torch.randn(size, dtype=torch.float64, generator=generator) for _ in range(2))
    pipe = pipeline(plan, fused_models.fused_model(), functional.mse_loss, (inputs, targets), mesh_plan=where)
    last, whole = pipe.step((inputs, targets)), fused_models.fused_model()
    expected = functional.mse_loss(whole(inputs), targets)
    expected.backward()
    return compared(pipe, whole, rank, last=last, expected=expected)


def training_case(plan: Plan, ranks: tuple[On, ...], rank: int, **options: Any) -> Answer:
    """Three steps of a stock optimizer against the unsplit model's; then the state it began with is loaded again."""
    data = batch(plan)
    whole, layered = model(plan, **options), as_row(model(plan, **options))
    pipe = pipeline(plan, layered, loss_fn, data, mesh_plan=mesh_plan(plan, layered, ranks))
    worst = 0.0
    begin = {name: value.clone() for name, value in whole.state_dict().items()}
    optimizers = [torch.optim.AdamW(one.parameters(), lr=0.01) for one in (pipe, whole)]
    for _ in range(3):
        for optimizer in optimizers:
            optimizer.zero_grad()
        pipe.step(data)
        loss_fn(whole(data[0]).logits, data[1]).backward()
        for optimizer in optimizers:
            optimizer.step()
        evaluated = pipe.evaluate(data)
        if evaluated is not None:
            worst = max(worst, abs(float(evaluated / loss_fn(whole(data[0]).logits, data[1]).detach()) - 1))
    error = max(worst, _distance(pipe, whole.state_dict()))
    pipe.load_state_dict(begin)
    return Answer(error=error, found=_distance(pipe, begin))


def dropout_case(plan: Plan, ranks: tuple[On, ...], rank: int, **options: Any) -> Answer:
    """Steps with dropout in attention, and behind layers: the numbers of the unsplit model, however they are split."""
    data = batch(plan)
    layered, whole = (as_row(dropping_model(plan, **options)) for _ in range(2))
    pipe = pipeline(plan, layered, loss_fn, data, mesh_plan=mesh_plan(plan, layered, ranks), seed=5)
    reference = Unsplit(whole, loss_fn, partial(torch.optim.SGD, lr=0.0), seed=5)
    for _ in range(NUM_STEPS):
        optimizer = torch.optim.SGD(pipe.parameters(), lr=0.0)
        optimizer.zero_grad()
        last, expected = pipe.step(data), reference.step(*data, plan.num_microbatches)
    return compared(pipe, whole.whole, rank, last=last, expected=expected)


def dropping_model(plan: Plan, **options: Any) -> Any:
    made = model(plan, dropout=0.3, **options)
    for layer in made.model.layers:
        layer.mlp.act_fn = nn.Sequential(nn.SiLU(), nn.Dropout(0.2))
    return made


def saved_case(
    plan: Plan, ranks: tuple[On, ...], after: Plan, ranks_after: tuple[On, ...] | None, rank: int, **options: Any
) -> Answer:
    """Steps, a checkpoint, and steps from it on other devices, or on one device a rank: as if nothing had happened.

    It is found whether the unsplit model and transformers read what is written.
    """
    data = batch(plan)
    folder: list[Any] = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder)

    def made(plan: Plan, ranks: tuple[On, ...] | None) -> tuple[Pipeline, torch.optim.Optimizer]:
        layered = as_row(model(plan, **options))
        where = None if ranks is None else mesh_plan(plan, layered, ranks)
        pipe = pipeline(plan, layered, loss_fn, data, mesh_plan=where)
        return pipe, torch.optim.AdamW(pipe.parameters(), lr=0.01)

    def train(pipe: Pipeline, optimizer: torch.optim.Optimizer) -> list[torch.Tensor | None]:
        losses = []
        for _ in range(2):
            optimizer.zero_grad()
            losses.append(pipe.step(data))
            optimizer.step()
        return losses

    before, later = made(plan, ranks), made(after, ranks_after)
    try:
        train(*before)
        before[0].save(folder[0], before[1], wait=False)
        before[0].save_pretrained(folder[0])
        then = {name: full(value).clone() for name, value in before[0].state_dict().items()}
        expected = train(*before)  # while it is written
        before[0].wait_for_checkpoint()
        later[0].load(folder[0], later[1])
        losses = train(*later)
        whole = model(plan, **options)
        state = {"model": whole.state_dict()}
        checkpoint.load(
            state, checkpoint_id=folder[0], process_group=dist.new_group([rank], use_local_synchronization=True)
        )
        whole.load_state_dict(state["model"])
        whole.config.save_pretrained(folder[0])
        dist.barrier()
        known = LlamaForCausalLM.from_pretrained(folder[0], dtype=torch.float64).state_dict()
    finally:
        dist.barrier()
        if rank == 0:
            shutil.rmtree(folder[0])
    wanted = {name: full(value) for name, value in before[0].state_dict().items()}
    own = {name: full(value) for name, value in later[0].state_dict().items()}
    errors = [float((wanted[name] - own[name]).abs().max()) for name in wanted.keys() & own.keys()]
    shares = [abs(float(one / two) - 1) for one, two in zip(losses, expected, strict=True) if None not in (one, two)]
    same = [torch.equal(value, of[name]) for of in (whole.state_dict(), known) for name, value in then.items()]
    return Answer(error=max(errors, default=0.0), loss_error=max(shares, default=0.0), found=all(same))


def full(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _distance(pipe: Pipeline, expected: dict[str, torch.Tensor]) -> float:
    return max(float((value.full_tensor() - expected[name]).abs().max()) for name, value in pipe.state_dict().items())


def model(plan: Plan, **options: Any) -> Any:
    logging.getLogger("torch.distributed.tensor").setLevel(logging.ERROR)
    made = llama(plan.num_layers, **options)
    norm_in_float64(made)
    return made


def batch(plan: Plan, samples: int = SAMPLES, length: int = LENGTH) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(13)
    inputs = torch.randint(VOCABULARY, (samples * plan.num_microbatches, length), generator=generator)
    return inputs, torch.randint(VOCABULARY, inputs.shape, generator=generator)


@dataclass
class Events:
    """What a rank does in a step, in order."""

    seen: list[str]

    def begin(self, op: Op, stage: int, microbatch: int) -> None:
        self.seen.append(f"{op.name}{microbatch}")

    def end(self) -> None:
        self.seen.append("end")


def events_case(plan: Plan, ranks: tuple[On, ...], rank: int, *, sums_parts: bool = False) -> Answer:
    """The events of the second step: actions, and collectives that begin and are waited for."""
    data, events = batch(plan), Events(seen=[])

    class Seen(Moving):
        def __init__(self, tensor: DTensor, placements: Sequence[Any]) -> None:
            super().__init__(tensor, placements)
            self._is_gather = isinstance(tensor, nn.Parameter)
            events.seen.append("gather" if self._is_gather else "reduce")

        def arrived(self) -> DTensor:
            events.seen.append("gathered" if self._is_gather else "reduced")
            return super().arrived()

    layered = as_row(model(plan))
    with pytest.MonkeyPatch.context() as patch:
        for module in (mesh_parameters, moving):
            patch.setattr(module, "Moving", Seen)
        pipe = pipeline(plan, layered, loss_fn, data, mesh_plan=mesh_plan(plan, layered, ranks, sums_parts=sums_parts))
        optimizer = torch.optim.SGD(pipe.parameters(), lr=0.1)
        pipe.step(data)
        optimizer.step()
        pipe.observe(events)
        events.seen.clear()
        pipe.step(data)
    return Answer(found=events.seen)


def gathers_case(plan: Plan, ranks: tuple[On, ...], rank: int) -> Answer:
    """The events of the second step: actions, layers that compute, and their gathers: begun, used and freed.

    A layer that computes says of which layers memory is still held that was gathered, and so does the end of the step.
    """
    data, events = batch(plan), Events(seen=[])
    numbers: dict[int, int] = {}
    gathered: list[tuple[int, StorageWeakRef]] = []

    def held() -> str:
        return f"with {sorted({number for number, storage in gathered if not storage.expired()})}"

    def wrapped(layers: GatheredLayers, forwards: Any) -> Any:
        numbers.update({id(one): number for number, layer in enumerate(layers.layers) for one in layer})

        def computing(number: int, forward: Any, *inputs: Any, **keywords: Any) -> Any:
            events.seen.append(f"layer {number} {held()}")
            return forward(*inputs, **keywords)

        return wrap(layers, [partial(computing, number, one) for number, one in enumerate(forwards)])

    def noted(kind: str) -> Any:
        do = getattr(GatheredParameter, kind)

        def note(parameter: GatheredParameter) -> None:
            number = numbers[id(parameter)]
            is_new = kind != "begin" or (parameter._moving is None and parameter.local is None)
            do(parameter)
            if is_new and events.seen[-1:] != [f"{kind} {number}"]:
                events.seen.append(f"{kind} {number}")
            if kind == "use":
                gathered.append((number, StorageWeakRef(parameter.local.untyped_storage())))

        return note

    layered, wrap = as_row(model(plan)), GatheredLayers.wrapped
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GatheredLayers, "wrapped", wrapped)
        pipe = pipeline(plan, layered, loss_fn, data, mesh_plan=mesh_plan(plan, layered, ranks))
        pipe.step(data)
        for kind in ("begin", "use", "free"):
            patch.setattr(GatheredParameter, kind, noted(kind))
        pipe.observe(events)
        events.seen.clear()
        pipe.step(data)
    return Answer(found=[*(event for event in events.seen if event != "end"), held()])
