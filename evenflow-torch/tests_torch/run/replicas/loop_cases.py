"""What a training loop does beside steps, on several ranks and replicas, and in one process."""

import copy
import shutil
import tempfile
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional
from transformers import LlamaForCausalLM

from evenflow.model import Plan
from evenflow_torch.run import Pipeline, pipeline
from evenflow_torch.run.engine.torch_names import kept_microbatches
from evenflow_torch.run.replicas.replicas import replicas_of
from tests_torch.run.cases import Answer
from tests_torch.run.models import VOCABULARY, batch, llama, loss_fn
from tests_torch.run.replicas.replica_cases import Mesh, device_mesh, own_samples, whole

Batch = tuple[Tensor, Tensor]
PADDING = -100


def gradient_error(pipe: Pipeline, model: nn.Module) -> float:
    """The largest error of a gradient, relative to the largest of its parameter."""
    expected = dict(model.named_parameters(remove_duplicate=False))
    return max(
        float((whole(own.grad) - expected[name].grad).abs().max() / expected[name].grad.abs().max())
        for name, own in pipe.named_parameters()
        if own.requires_grad
    )


def relative(loss: Tensor | None, expected: Tensor) -> list[float]:
    return [] if loss is None else [abs(float(loss / expected) - 1)]


def evaluate_case(plan: Plan, sizes: Mesh, rank: int, **options: Any) -> Answer:
    """Evaluations before, between and behind steps, and with dropout, change nothing."""
    mesh = device_mesh(sizes)
    data = batch(plan.num_microbatches * replicas_of(mesh).count)
    own = own_samples(data, mesh)
    pipe = pipeline(plan, llama(plan.num_layers, dropout=0.3, **options), loss_fn, own, seed=5, mesh=mesh)
    alone = pipeline(plan, llama(plan.num_layers, dropout=0.3, **options), loss_fn, own, seed=5, mesh=mesh)
    model = llama(plan.num_layers, **options).eval()
    errors = []
    for _ in range(2):
        errors += relative(pipe.evaluate(own), loss_fn(model(data[0]).logits, data[1]).detach())
        pipe.step(own)
        alone.step(own)
    errors += relative(pipe.evaluate(own), loss_fn(model(data[0]).logits, data[1]).detach())
    same = [
        torch.equal(whole(first.grad), whole(second.grad))
        for first, second in zip(pipe.parameters(), alone.parameters(), strict=True)
    ]
    is_training = all(stage.submod.training for stage in pipe.stages)
    left = sum(len(kept_microbatches(stage)) for stage in pipe.stages)
    return Answer(error=0.0, loss_error=max(errors, default=0.0), found=(all(same), is_training, left))


def uneven(seed: int, samples: int, length: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randint(VOCABULARY, (samples, length), generator=generator)
    return inputs, torch.randint(VOCABULARY, inputs.shape, generator=generator)


def shapes_case(plan: Plan, sizes: Mesh, rank: int, **options: Any) -> Answer:
    """Steps of other sizes and lengths, and replicas with other numbers of samples: means over all samples."""
    mesh = device_mesh(sizes)
    replicas = replicas_of(mesh)
    count, least = replicas.count, plan.num_microbatches
    steps = [
        [uneven(step * count + index, samples + 2 * index, length) for index in range(count)]
        for step, (samples, length) in enumerate(((2 * least, 5), (2 * least + 1, 7), (least, 3), (2 * least, 5)))
    ]
    example = uneven(0, 2 * least, 5)
    pipe = pipeline(plan, llama(plan.num_layers, **options), loss_fn, example, mesh=mesh)
    model = llama(plan.num_layers, **options)
    errors = []
    for batches in steps:
        inputs, targets = (torch.cat(tensors) for tensors in zip(*batches, strict=True))
        expected = loss_fn(model(inputs).logits, targets)
        expected.backward()
        errors += relative(pipe.step(batches[replicas.index]), expected.detach())
        errors += relative(pipe.evaluate(batches[replicas.index]), expected.detach())
    return Answer(error=gradient_error(pipe, model), loss_error=max(errors, default=0.0))


def sum_over_tokens(output: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(output.flatten(0, -2), target.flatten(), ignore_index=PADDING, reduction="sum")


def num_tokens(target: Tensor) -> Tensor:
    return (target != PADDING).sum()


def tokens_case(plan: Plan, sizes: Mesh, rank: int, **options: Any) -> Answer:
    """Padding, a microbatch of nothing else, and other numbers of tokens on every replica: means over all tokens."""
    mesh = device_mesh(sizes)
    replicas = replicas_of(mesh)
    inputs, targets = batch(plan.num_microbatches * replicas.count)
    targets = targets.clone()
    for sample in range(len(targets)):
        targets[sample, sample % 5 :] = PADDING
    targets[:2] = PADDING  # the first microbatch
    own = own_samples((inputs, targets), mesh)
    model = llama(plan.num_layers, **options)
    pipe = pipeline(plan, copy.deepcopy(model), sum_over_tokens, own, loss_weight=num_tokens, mesh=mesh)
    expected = functional.cross_entropy(model(inputs).logits.flatten(0, 1), targets.flatten(), ignore_index=PADDING)
    expected.backward()
    errors = relative(pipe.step(own), expected.detach())
    nothing = own[0], torch.full_like(own[1], PADDING)
    empty = pipe.evaluate(nothing)
    return Answer(
        error=gradient_error(pipe, model),
        loss_error=max(errors, default=0.0),
        found=None if empty is None else float(empty),
    )


def scaler_case(plan: Plan, sizes: Mesh, rank: int) -> Answer:
    """A scaled step, an overflow that all ranks skip, and another step, against one process without a scaler."""
    mesh = device_mesh(sizes)
    data = batch(plan.num_microbatches * replicas_of(mesh).count)
    own = own_samples(data, mesh)
    pipe = pipeline(plan, llama(plan.num_layers), loss_fn, own, mesh=mesh)
    optimizer = torch.optim.SGD(pipe.parameters(), lr=0.1)
    scaler = ShardedGradScaler("cpu", init_scale=2.0**10)
    model = llama(plan.num_layers)
    alone = torch.optim.SGD(model.parameters(), lr=0.1)
    errors = []
    for is_lost in (False, True, False):
        optimizer.zero_grad()
        loss = pipe.step(own, scaler=scaler)
        if is_lost and rank == 0:
            next(gradient for parameter in pipe.parameters() if (gradient := parameter.grad) is not None).mul_(
                torch.inf
            )
        scaler.step(optimizer)
        scaler.update()
        expected = loss_fn(model(data[0]).logits, data[1])
        errors += relative(loss, expected.detach())
        if not is_lost:
            alone.zero_grad()
            expected.backward()
            alone.step()
    state = model.state_dict()
    error = max(float((whole(value) - state[name]).abs().max()) for name, value in pipe.state_dict().items())
    return Answer(error=error, loss_error=max(errors, default=0.0), found=scaler.get_scale())


def trained_case(plan: Plan, sizes: Mesh, rank: int, **options: Any) -> Answer:
    """Steps of a stock optimizer with clipped gradients, against one process; whole tensors are loaded."""
    mesh = device_mesh(sizes)
    data = batch(plan.num_microbatches * replicas_of(mesh).count)
    own = own_samples(data, mesh)
    pipe = pipeline(plan, llama(plan.num_layers, **options), loss_fn, own, mesh=mesh)
    model = llama(plan.num_layers, **options)
    start = copy.deepcopy(model.state_dict())
    optimizer, alone = (torch.optim.AdamW(owner.parameters(), lr=0.05) for owner in (pipe, model))
    for _ in range(3):
        optimizer.zero_grad()
        alone.zero_grad()
        pipe.step(own)
        loss_fn(model(data[0]).logits, data[1]).backward()
        pipe.clip_grad_norm_(0.2)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.2)
        optimizer.step()
        alone.step()
    state = model.state_dict()
    error = max(float((whole(value) - state[name]).abs().max()) for name, value in pipe.state_dict().items())
    pipe.load_state_dict(start)
    loaded = all(torch.equal(whole(value), start[name]) for name, value in pipe.state_dict().items())
    return Answer(error=error, loss_error=0.0, names=tuple(pipe.state_dict()), found=loaded)


def saved_case(plan: Plan, sizes: Mesh, after: Plan, sizes_after: Mesh, rank: int) -> Answer:
    """Steps, a checkpoint, and steps from it in another plan and mesh, with dropout: as if nothing had happened."""
    folder: list[Any] = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder)
    data = batch(plan.num_microbatches * replicas_of(device_mesh(sizes)).count)

    def made(plan: Plan, sizes: Mesh) -> tuple[Pipeline, torch.optim.Optimizer, Batch]:
        mesh = device_mesh(sizes)
        own = own_samples(data, mesh)
        pipe = pipeline(plan, llama(plan.num_layers, tied=True, dropout=0.2), loss_fn, own, seed=5, mesh=mesh)
        return pipe, torch.optim.AdamW(pipe.parameters(), lr=0.05), own

    def train(pipe: Pipeline, optimizer: torch.optim.Optimizer, own: Batch) -> list[Tensor | None]:
        losses = []
        for _ in range(2):
            optimizer.zero_grad()
            losses.append(pipe.step(own))
            optimizer.step()
        return losses

    before, later = made(plan, sizes), made(after, sizes_after)
    try:
        train(*before)
        before[0].save(folder[0], before[1], wait=False)
        expected = train(*before)  # while it is written
        before[0].wait_for_checkpoint()
        later[0].load(folder[0], later[1])
        found = train(*later)
    finally:
        dist.barrier()
        if rank == 0:
            shutil.rmtree(folder[0])
    wanted = {name: whole(value) for name, value in before[0].state_dict().items()}
    state = {name: whole(value) for name, value in later[0].state_dict().items()}
    error = max(float((wanted[name] - state[name]).abs().max()) for name in wanted.keys() & state.keys())
    errors = [abs(float(one / two) - 1) for one, two in zip(found, expected, strict=True) if None not in (one, two)]
    return Answer(error=error, loss_error=max(errors, default=0.0))


def pretrained_case(plan: Plan, sizes: Mesh, after: Plan, sizes_after: Mesh, rank: int) -> Answer:
    """Files as Hugging Face has them, which transformers reads, and another plan into a model without storage."""
    folder: list[Any] = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder)
    data = batch(plan.num_microbatches * replicas_of(device_mesh(sizes)).count)

    def made(plan: Plan, sizes: Mesh, model: nn.Module, **options: Any) -> Pipeline:
        mesh = device_mesh(sizes)
        return pipeline(plan, model, loss_fn, own_samples(data, mesh), mesh=mesh, **options)

    model = llama(plan.num_layers, tied=True)
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.add_(number)
    state = copy.deepcopy(model.state_dict())
    try:
        made(plan, sizes, model).save_pretrained(folder[0])
        with torch.device("meta"):
            empty = llama(plan.num_layers, tied=True)
        loaded = made(after, sizes_after, empty, weights=folder[0]).state_dict()
        known = {}
        if rank == 0:
            model.config.save_pretrained(folder[0])
            known = LlamaForCausalLM.from_pretrained(folder[0], dtype=torch.float64).state_dict()
    finally:
        dist.barrier()
        if rank == 0:
            shutil.rmtree(folder[0])
    same = [torch.equal(whole(value), state[name]) for name, value in (*loaded.items(), *known.items())]
    return Answer(error=0.0, names=tuple(loaded), found=all(same))


def split_heads_and_widths(mesh: Any, stage: dict[str, nn.Module]) -> None:
    """Split the layers of a decoder over the devices of a mesh, as people do."""
    for module in stage.values():
        if hasattr(module, "self_attn"):
            columns = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
            rows = ("self_attn.o_proj", "mlp.down_proj")
            parallelize_module(
                module,
                mesh,
                {**{name: ColwiseParallel() for name in columns}, **{name: RowwiseParallel() for name in rows}},
            )


def tensor_case(plan: Plan, sizes: Mesh, names: tuple[str, ...], rank: int) -> Answer:
    """Layers that are split over devices, inside stages and below replicas."""
    root = device_mesh(sizes)
    mesh = root[names]
    count = replicas_of(mesh).count
    data = batch(plan.num_microbatches * count)
    own = own_samples(data, mesh)
    pipe = pipeline(
        plan, llama(plan.num_layers), loss_fn, own, mesh=mesh, parallelize=partial(split_heads_and_widths, root["tp"])
    )
    model = llama(plan.num_layers)
    errors = []
    for _ in range(2):
        expected = loss_fn(model(data[0]).logits, data[1])
        expected.backward()
        errors += relative(pipe.step(own), expected.detach())
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    errors.append(abs(float(pipe.clip_grad_norm_(torch.inf) / torch.nn.utils.get_total_norm(gradients)) - 1))
    return Answer(error=gradient_error(pipe, model), loss_error=max(errors))
