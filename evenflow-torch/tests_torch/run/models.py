"""Small models, and what the unsplit ones compute: in float64, with losses and gradients of the whole batch."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

from evenflow.model import HostLink, Plan
from evenflow.schedule import schedule_of
from evenflow_torch.models.rows import as_row
from evenflow_torch.run import Hook, Observer, Pipeline, pipeline
from evenflow_torch.run.engine.stages import StageModule, cut
from evenflow_torch.run.engine.torch_names import kept_microbatches
from evenflow_torch.run.measure.verify import Unsplit
from tests_torch.run.cases import NUM_STEPS, Answer
from tests_torch.run.engine.split_cases import SIZE, module

VOCABULARY = 24


def loss_fn(output: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(output.flatten(0, -2), target.flatten())


def llama(num_layers: int, *, tied: bool = False, dropout: float = 0.0, attention: str = "sdpa") -> LlamaForCausalLM:
    torch.manual_seed(11)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=20,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_hidden_layers=num_layers,
        tie_word_embeddings=tied,
        attention_dropout=dropout,
        attn_implementation=attention,
        pad_token_id=None,
    )
    return LlamaForCausalLM(config).double().train()


def row(num_layers: int) -> nn.Sequential:
    """Embedding, layers with dropout, output; not a model that evenflow knows by name."""
    torch.manual_seed(12)
    body = [nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.3)) for _ in range(num_layers)]
    return nn.Sequential(nn.Embedding(VOCABULARY, 8), *body, nn.Linear(8, VOCABULARY)).double()


def stage_modules(model: Any, plan: Plan, **options: Any) -> list[StageModule]:
    """The modules of all stages of a plan."""
    layered = as_row(model)
    return [StageModule(stage, layered.context, **options) for stage in cut(layered, plan, schedule_of(plan))]


def batch(num_microbatches: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(13)
    inputs = torch.randint(VOCABULARY, (2 * num_microbatches, 5), generator=generator)
    return inputs, torch.randint(VOCABULARY, inputs.shape, generator=generator)


def llama_case(plan: Plan, rank: int, *, host_link: HostLink | None = None, **options: Any) -> Answer:
    """Steps of the pipeline against the unsplit model's gradients of the whole batch; gradients accumulate."""
    data = batch(plan.num_microbatches)
    pipe = pipeline(plan, llama(plan.num_layers, **options), loss_fn, data, seed=5, host_link=host_link)
    traffic = pipe.runtime.traffic
    losses = [pipe.step(data) for _ in range(NUM_STEPS)]
    whole = llama(plan.num_layers, **options)
    if options.get("dropout"):
        reference = Unsplit(as_row(whole), loss_fn, partial(torch.optim.SGD, lr=0.0), seed=5)
        sums = {name: torch.zeros_like(parameter) for name, parameter in reference.parameters.items()}
        expected = torch.zeros(())
        for _ in range(NUM_STEPS):
            expected = reference.step(*data, plan.num_microbatches)
            for name, parameter in reference.parameters.items():
                sums[name] += parameter.grad
        gradients = sums
    else:
        expected = loss_fn(whole(data[0]).logits, data[1])
        (NUM_STEPS * expected).backward()
        gradients = {name: parameter.grad for name, parameter in whole.named_parameters(remove_duplicate=False)}
    error = max(
        [float((own.grad - gradients[name]).abs().max() / gradients[name].abs().max())
         for name, own in pipe.named_parameters()],
        default=0.0,
    )  # fmt: skip
    error = max(error, _norm_error(pipe, [gradients[name] for name, _ in whole.named_parameters()]))
    last = losses[-1]
    loss_error = None if last is None else abs(float(last / expected.detach()) - 1)
    moves = traffic is not None and bool(traffic.calls())
    return Answer(error=error, loss_error=loss_error, names=tuple(pipe.state_dict()), found=moves)


def _norm_error(pipe: Pipeline, gradients: list[Tensor]) -> float:
    """How far the norm of the gradients is from that of the unsplit model's, and they from its clipped ones."""
    errors = []
    for norm_type in (1.0, 2.0, math.inf):
        wanted = torch.nn.utils.get_total_norm(gradients, norm_type)
        errors.append(abs(float(pipe.clip_grad_norm_(math.inf, norm_type=norm_type) / wanted) - 1))
    before = [parameter.grad.clone() for parameter in pipe.parameters()]
    norm = float(pipe.clip_grad_norm_(0.5 * float(wanted), norm_type=math.inf))
    for parameter, gradient in zip(pipe.parameters(), before, strict=True):
        errors.append(float((parameter.grad - gradient * min(1.0, 0.5 * norm / (norm + 1e-6))).abs().max()))
    return max(errors)


def row_case(plan: Plan, rank: int) -> Answer:
    """A row of modules with dropout: the same numbers as one stage after the other in this process."""
    data = batch(plan.num_microbatches)
    pipe = pipeline(plan, row(plan.num_layers), loss_fn, data, seed=6, head_modules=1, tail_modules=1)
    alone = _one_process(row(plan.num_layers), data, plan.num_microbatches)
    pipe.step(data)
    error = max(
        float((own.grad - alone[name]).abs().max() / alone[name].abs().max()) for name, own in pipe.named_parameters()
    )
    return Answer(error=error, names=tuple(pipe.state_dict()))


def mixed_row(num_layers: int) -> nn.Sequential:
    """Embedding, layers whose gradients a split backward could lose, output."""
    kinds = ("weight norm", "hook that is not linear", "twice", "own", "tied to a table", "hook behind the sum", "tied")
    body = [
        nn.Sequential(module("turned", index), module(kinds[index % len(kinds)], index), module("turned", index + 1))
        for index in range(num_layers)
    ]
    torch.manual_seed(12)
    return nn.Sequential(nn.Embedding(VOCABULARY, SIZE), *body, nn.Linear(SIZE, VOCABULARY)).double()


def mixed_case(plan: Plan, rank: int) -> Answer:
    """Layers of many kinds under split backwards: the gradients of whole backwards in one process, none missing."""
    data = batch(plan.num_microbatches)
    pipe = pipeline(plan, mixed_row(plan.num_layers), loss_fn, data, head_modules=1, tail_modules=1)
    alone = _one_process(mixed_row(plan.num_layers), data, plan.num_microbatches)
    pipe.step(data)
    error = max(
        float((own.grad - alone[name]).abs().max() / alone[name].abs().max().clamp(min=1e-30))
        for name, own in pipe.named_parameters()
        if alone[name] is not None
    )
    return Answer(error=error, names=tuple(pipe.state_dict()))


def _one_process(model: nn.Sequential, data: tuple[Tensor, Tensor], num_microbatches: int) -> dict[str, Tensor]:
    from evenflow_torch.run.engine.seeds import seed_of

    inputs, targets = (tensor.chunk(num_microbatches) for tensor in data)
    for microbatch in range(num_microbatches):
        hidden: Any = inputs[microbatch]
        for position, part in enumerate(model):
            torch.manual_seed(seed_of(6, 0, microbatch, position))
            hidden = part(hidden)
        (loss_fn(hidden, targets[microbatch]) / num_microbatches).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


class Buffers:
    """An observer that counts the receive buffers of the stages at the begin of every action."""

    def __init__(self) -> None:
        self.stages: Sequence[Any] = ()
        self.most = 0

    def begin(self, *_action: Any) -> None:
        self.most = max(self.most, self.count())

    def end(self) -> None:
        pass

    def count(self) -> int:
        infos = [
            info
            for stage in self.stages
            for table in (stage.args_recv_info, stage.grad_recv_info)
            for row_of_infos in table.values()
            for info in row_of_infos
        ]
        return sum(info.buffer is not None for info in infos)


def buffers_case(plan: Plan, rank: int) -> Answer:
    """The most receive buffers at any time, and those that are left after a step."""
    buffers = Buffers()
    data = batch(plan.num_microbatches)
    observer: Observer = buffers
    pipe = pipeline(plan, llama(plan.num_layers), loss_fn, data)
    pipe.observe(observer)
    pipe.step(data)
    buffers.stages = pipe.stages
    pipe.step(data)
    return Answer(found=(buffers.most, buffers.count()))


def hooks_case(plan: Plan, rank: int, *, after: list[Any]) -> Answer:
    """What hooks see: the microbatches that are alive when they run."""
    seen: list[tuple[str, list[int]]] = []
    data = batch(plan.num_microbatches)
    hooks = [
        Hook(after=action, run=lambda engine, action=action: seen.append(
            (str(action), kept_microbatches(engine.stage(action.stage)))))
        for action in after
    ]  # fmt: skip
    pipe = pipeline(plan, llama(plan.num_layers), loss_fn, data)
    pipe.add_hooks(hooks if rank == 0 else ())
    pipe.step(data)
    pipe.step(data)
    return Answer(found=seen)


def checkpoint_case(plan: Plan, rank: int) -> Answer:
    """A state_dict goes in and comes out under the names of the unsplit model; what does not fit is refused."""
    from evenflow.errors import InputError

    data = batch(plan.num_microbatches)
    pipe = pipeline(plan, llama(plan.num_layers, tied=True), loss_fn, data)
    whole = llama(plan.num_layers, tied=True)
    with torch.no_grad():
        for parameter in whole.parameters():
            parameter.add_(1.0)
    state = whole.state_dict()
    pipe.load_state_dict(state)
    same = all(torch.equal(value, state[name]) for name, value in pipe.state_dict().items())
    refused = []
    for wrong in (lambda: pipe.load_state_dict({}), lambda: pipe.step((data[0][:-1], data[1]))):
        try:
            wrong()
        except InputError as error:
            refused.append(error.place)
    return Answer(found=(same, refused), names=tuple(pipe.state_dict()))
