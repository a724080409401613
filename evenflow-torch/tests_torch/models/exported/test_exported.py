"""What of a model is exported, and which models are refused."""

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from evenflow.errors import InputError  # noqa: E402
from evenflow_torch.models.exported.exported import export_forward  # noqa: E402
from tests_torch.auto.modules import Lone, gated  # noqa: E402


def test_a_tied_parameter_has_several_names_and_one_tensor() -> None:
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False))
    model[1].weight = model[0].weight
    exported = export_forward(model, torch.randn(4, 8))
    assert sorted(set(exported.parameters.values())) == [("0.weight", "1.weight")]
    assert {id(exported.tensors[node]) for node in exported.parameters} == {id(model[0].weight)}


def test_the_loss_is_the_result_where_one_has_that_name() -> None:
    def forward(model: Lone, x: object) -> object:
        hidden = model.one(x)
        return {"hidden": hidden, "loss": hidden.sum()}

    assert export_forward(Lone(forward), torch.randn(4, 8)).result.meta["val"].shape == ()


def by_value(model: Lone, x: object) -> object:
    return model.one(x) if x.sum() > 0 else model.other(x)


def by_number(model: Lone, x: object) -> object:
    return model.one(x) * x.sum().item()


def by_choice(model: Lone, x: object) -> object:
    return model.other(model.one(x)[x[:, 0] > 0])


def nothing(model: Lone, x: object) -> object:
    return None


def the_batch(model: Lone, x: object) -> object:
    return 2 * x


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (by_value, "must export with torch.export .Could not guard on data-dependent"),
        (by_number, "depend on what aten.item.default finds in a tensor"),
        (by_choice, "depend on what .* finds in a tensor"),
        (nothing, "must return a tensor with a gradient .*got 'NoneType'"),
        (the_batch, "must return a tensor with a gradient"),
    ],
)
def test_models_that_do_not_export(forward: object, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match=message):
        export_forward(Lone(forward), torch.randn(4, 8))
    assert capfd.readouterr() == ("", "")  # what torch prints beside its errors is left out


def test_a_batch_that_does_not_fit() -> None:
    with pytest.raises(InputError, match=r"\(a and b must have same reduction dim.*a batch that fits"):
        export_forward(Lone(gated), torch.randn(4, 7))
