"""Names of layers and the scopes that they match."""

from pathlib import Path

import pytest

from evenflow.errors import InputError
from evenflow.profiles.traces import LayerNames, read_traces
from evenflow.profiles.traces.names import NameMatcher
from tests.profiles.traces.rows import forwards, refusal, row


@pytest.mark.parametrize(
    "names",
    [{"body": ()}, {"head": ("",)}, {"head": ("A",), "tail": ("A",)}, {"body": ("A", "A")}],
)
def test_bad_names_are_refused(names: dict[str, tuple[str, ...]]):
    with pytest.raises(InputError):
        LayerNames(**names)


def test_the_longest_name_that_a_scope_contains_counts():
    matcher = NameMatcher(LayerNames(head=("Layer",), body=("MoeLayer",), tail=("LayerNorm",)))
    matches = [matcher(scope) for scope in ("3-MoeLayer", "LayerNorm", "0-Layer", "0-Layer", "Linear")]
    assert matches == [("body", "MoeLayer"), ("tail", "LayerNorm"), ("head", "Layer"), ("head", "Layer"), None]


def test_missing_names_are_refused_with_those_that_are_there(tmp_path: Path):
    path = forwards(
        row("0-GptLayer", 0, 10), row("1-GptLayer", 10, 10), row("ln_f-LayerNorm", 20, 5),
        path=tmp_path / "trace_view0.json",
    )  # fmt: skip
    message = refusal(path)
    assert "'GptLayer' (2), 'ln_f-LayerNorm' (1)" in message
    assert "got 'LLamaDecodeLayer'; name the layers of your model with --body" in message
    in_a_file = LayerNames(body=("Absent",), given_by="{role}_layers in init.yaml")
    assert "name the layers of your model with body_layers in init.yaml" in refusal(path, names=in_a_file)
    assert "--tail" in refusal(path, names=LayerNames(body=("GptLayer",), tail=("Head",)))
    times = read_traces(path, num_microbatches=1, names=LayerNames(body=("GptLayer",)))
    assert times.head is None
    assert times.tail is None
    assert "no trace has a head layer named LlamaEmbedding" in times.notes


def test_several_body_names_are_kinds_and_the_longest_name_counts(tmp_path: Path):
    path = forwards(
        row("0-Layer", 0, 10), row("1-MoeLayer", 10, 20), row("2-MoeLayer", 30, 40), path=tmp_path / "trace_view0.json"
    )
    times = read_traces(path, num_microbatches=1, names=LayerNames(head=(), body=("Layer", "MoeLayer"), tail=()))
    assert [(body.name, body.forward_ns) for body in times.bodies] == [("Layer", 10_000), ("MoeLayer", 30_000)]
    assert times.bodies[1].forward_spread.minimum_ns == 20_000
    assert times.bodies[1].forward_spread.maximum_ns == 40_000
    assert times.bodies[1].backward_ns is None
    assert times.files[0].num_layers == 3
