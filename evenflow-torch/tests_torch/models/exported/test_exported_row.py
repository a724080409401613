"""Modules of any form as rows of layers: the same function, the same parameters, equal blocks as equal layers."""

import copy
import inspect

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from evenflow.errors import InputError  # noqa: E402
from evenflow_torch.models.equal_parts import kinds_of  # noqa: E402
from evenflow_torch.models.exported.exported_row import exported_row  # noqa: E402
from evenflow_torch.models.parts import ModelRow  # noqa: E402
from tests_torch.auto.modules import Encoder, Gpt, Lone, ResNet, SkipMlp, batch_of, gated  # noqa: E402


def row_of(model: object, batch: object, *, most_even_layers: int = 8) -> ModelRow:
    return exported_row(model, batch, most_even_layers=most_even_layers)


def run(row: ModelRow, batch: dict[str, object]) -> object:
    """The layers one after the other."""
    value = next(iter(batch.values()))
    for layer in row.parts:
        value = layer.module(value, **{name: batch[name] for name in layer.named_inputs})
    return value


def state_after(model: object, result: object) -> dict[str, object]:
    """Gradients and buffers after a backward pass; clears the gradients."""
    (result * torch.linspace(0, 1, result.numel(), dtype=result.dtype).view_as(result)).sum().backward()
    found = {name: one.grad for name, one in model.named_parameters()}
    found |= {f"buffer {name}": one.clone() for name, one in model.named_buffers()}
    model.zero_grad()
    return found


def check_same_function(model: object, args: tuple[object, ...], row: ModelRow) -> None:
    """Output, gradients and what is written to buffers, in training mode, dropout included: bit for bit."""
    before = copy.deepcopy(model.state_dict())
    batch = inspect.signature(model.forward).bind(*args).arguments
    torch.manual_seed(0)
    expected = model(*args)
    expected = expected["logits"] if isinstance(expected, dict) else expected
    states = state_after(model, expected)
    model.load_state_dict(before)
    torch.manual_seed(0)
    found = run(row, batch)
    assert torch.equal(found, expected)
    for name, one in state_after(model, found).items():
        torch.testing.assert_close(one, states[name], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("make", [Gpt, Encoder, ResNet, SkipMlp])
def test_layers_one_after_the_other_are_the_model(make: type) -> None:
    torch.manual_seed(1)
    model = make().double()
    args = batch_of(model)
    row = row_of(model, args)
    check_same_function(model, args, row)
    names = {layer.full_name(name) for layer in row.parts for name, _ in layer.module.named_parameters()}
    assert {name for name, _ in model.named_parameters()} <= names
    assert names <= {name for name, _ in model.named_parameters(remove_duplicate=False)}
    for layer in row.parts:
        for name, parameter in layer.module.named_parameters():
            assert parameter is model.get_parameter(layer.full_name(name))


def modules(row: ModelRow) -> list[tuple[str, ...]]:
    return [layer.modules for layer in row.parts]


@pytest.fixture(scope="module")
def gpt() -> ModelRow:
    with torch.device("meta"):
        return row_of(Gpt(), {"tokens": torch.zeros(2, 8, dtype=torch.long)})


@pytest.fixture(scope="module")
def encoder() -> ModelRow:
    return row_of(Encoder().double(), batch_of(Encoder()))


def test_blocks_become_equal_layers(gpt: ModelRow) -> None:
    assert all(parameter.is_meta for layer in gpt.parts for parameter in layer.module.parameters())
    assert modules(gpt) == [("wte", "wpe"), ("blocks.0",), ("blocks.1",), ("blocks.2",), ("ln_f", "head")]
    assert (gpt.head, gpt.tail) == (gpt.parts[:1], gpt.parts[-1:])
    assert kinds_of(gpt.parts)[1] == (0, 1, 1, 1, 2)
    assert {name for name, _ in gpt.body[0].module.named_parameters()} == {
        name for name, _ in Gpt().blocks[0].named_parameters()
    }
    assert gpt.body[2].full_name("mlp.2.weight") == "blocks.2.mlp.2.weight"


def test_a_tied_parameter_has_the_name_of_where_it_is_used(gpt: ModelRow) -> None:
    names = [{layer.full_name(name) for name, _ in layer.module.named_parameters()} for layer in (*gpt.head, *gpt.tail)]
    assert names == [{"wte.weight", "wpe.weight"}, {"ln_f.weight", "ln_f.bias", "head.weight"}]


def test_layers_begin_where_modules_do(encoder: ModelRow) -> None:
    """Norms behind: the norm of the embedding looks like that of a layer, and still is not taken for it."""
    assert modules(encoder) == [("embed", "norm"), ("layers.0",), ("layers.1",), ("layers.2",), ("classify",)]
    assert kinds_of(encoder.parts)[1] == (0, 1, 1, 1, 2)


def test_what_is_no_parameter_comes_with_the_batch(encoder: ModelRow) -> None:
    assert [list(layer.named_inputs) for layer in encoder.parts] == [[], ["mask"], ["mask"], ["mask"], []]
    assert [layer.inputs[0].shape for layer in encoder.parts] == [(2, 8), *[(2, 8, 32)] * 4]


def test_blocks_of_several_widths_are_several_kinds() -> None:
    row = row_of(ResNet((3, 2, 3)).double(), batch_of(ResNet()))
    assert modules(row) == [
        ("stem", "norm"),
        *((f"stages.0.{i}",) for i in range(3)),
        *((f"stages.1.{i}",) for i in range(2)),
        *((f"stages.2.{i}",) for i in range(3)),
        ("fc",),
    ]
    assert kinds_of(row.parts)[1] == (0, 1, 1, 1, 2, 3, 4, 5, 5, 6)


def test_a_model_is_not_cut_where_two_tensors_cross() -> None:
    row = row_of(SkipMlp().double(), batch_of(SkipMlp()))
    assert (row.head, row.tail) == ((), ())
    assert modules(row) == [("a",), ("b", "c", "d"), ("e",)]
    assert modules(row_of(SkipMlp().double(), batch_of(SkipMlp()), most_even_layers=2)) == [
        ("a",),
        ("b", "c", "d", "e"),
    ]


def two_results(model: Lone, x: object) -> object:
    return {"seen": x, "loss": None, "logits": model.other(model.one(x))}


def without_gradient(model: Lone, x: object) -> object:
    hidden = model.one(x)
    with torch.no_grad():
        target = model.other(hidden)
    return model.one(hidden) * target


def written_in_place(model: Lone, x: object) -> object:
    hidden = model.one(x)
    hidden[:, 0] = 1.0
    hidden[:, 1:3].mul_(2.0)
    return model.other(hidden.relu_())


def written_then_read_in_part(model: Lone, x: object) -> object:
    """The doubled columns cross a cut and are read through a view behind it."""
    hidden = model.one(x)
    hidden[:, 1:3].mul_(2.0)
    return model.other(model.one(hidden[:, :]))


def noise_of_a_region(model: Lone, x: object) -> object:
    with torch.no_grad():
        noise = torch.rand(8, dtype=x.dtype)
    return model.other(model.one(x) * noise) * noise


def read_from_a_buffer(model: Lone, x: object) -> object:
    hidden = model.one(x)
    model.seen[:, :4] = hidden.detach()[:, :4]
    return model.other(hidden) + model.seen[:, :]


def same_noise_twice(model: Lone, x: object) -> object:
    noise = torch.rand(8, dtype=x.dtype)
    return model.other(model.one(x) * noise) * noise


def checkpointed(model: Lone, x: object) -> object:
    return model.other(torch.utils.checkpoint.checkpoint(model.one, x, use_reentrant=False))


@pytest.mark.parametrize(
    ("forward", "num_layers"),
    [
        (gated, 1),
        (without_gradient, 2),
        (written_in_place, 2),
        (written_then_read_in_part, 3),
        (read_from_a_buffer, 2),
        (same_noise_twice, 1),
        (noise_of_a_region, 1),
        (checkpointed, 2),
        (two_results, 2),
    ],
)
def test_forwards_with_a_twist(forward: object, num_layers: int) -> None:
    torch.manual_seed(2)
    model, batch = Lone(forward).double(), (torch.randn(4, 8, dtype=torch.float64),)
    row = row_of(model, batch)
    assert len(row.parts) == num_layers
    check_same_function(model, batch, row)


class Flat(nn.Module):
    """A model of parameters alone."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.others = nn.Parameter(torch.randn(8, 8)), nn.ParameterList(torch.randn(8, 8) for _ in range(2))

    def forward(self, x: object) -> object:
        for weight in (self.first, *self.others):
            x = torch.relu(x @ weight)
        return x


def test_a_model_without_modules() -> None:
    model, batch = Flat().double(), (torch.randn(4, 8, dtype=torch.float64),)
    row = row_of(model, batch)
    check_same_function(model, batch, row)
    assert modules(row) == [("first",), ("others.0",), ("others.1",)]
    assert [[layer.full_name(name) for name, _ in layer.module.named_parameters()] for layer in row.parts] == [
        ["first"],
        ["others.0"],
        ["others.1"],
    ]
    assert kinds_of(row.parts)[1] == (0, 0, 0)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(8, 8, 2), nn.Linear(8, 3)

    def forward(self, x: object) -> object:
        return self.out(self.lstm(x)[0])


def test_the_users_module_stays_as_it_is() -> None:
    """A recurrent layer keeps its parameters in a list as well, which the tracer exchanges."""
    model = Recurrent().double()
    weights = list(model.lstm._flat_weights)
    batch = (torch.randn(5, 2, 8, dtype=torch.float64),)
    check_same_function(model, batch, row_of(model, batch))
    assert all(now is before for now, before in zip(model.lstm._flat_weights, weights, strict=True))


def test_parametrized_layers() -> None:
    layers = [nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)) for _ in range(2)]
    row = row_of(nn.Sequential(layers[0], nn.ReLU(), layers[1]), torch.empty(4, 8, device="meta"))
    assert modules(row) == [("0", "1"), ("2",)]
    assert row.body[1].full_name("parametrizations.weight.original0") == "2.parametrizations.weight.original0"


def test_parameters_that_are_not_the_models() -> None:
    other = nn.Linear(8, 8)
    with pytest.raises(InputError, match="model must use a parameter of its own"):
        row_of(Lone(lambda model, x: other(x)), torch.randn(4, 8))


def test_models_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **heads))
    tokens = torch.randint(0, 64, (2, 8))
    row = row_of(model, {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)})
    blocks = [(f"model.layers.{index}",) for index in range(3)]
    assert modules(row) == [("model.embed_tokens",), *blocks, ("model.norm", "lm_head")]
    assert kinds_of(row.parts)[1] == (0, 1, 1, 1, 2)
    with torch.no_grad():
        expected = model(tokens).logits
        assert torch.equal(run(row, {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}), expected)
    labelled = row_of(model, {"input_ids": tokens, "labels": tokens})
    assert list(labelled.parts[-1].named_inputs) == ["labels"]
    assert labelled.parts[-1].module(torch.randn(2, 8, 32), labels=tokens).shape == ()  # the loss
