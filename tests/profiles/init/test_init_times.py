"""The sections of an init file with times."""

import pytest

from evenflow.errors import InputError
from evenflow.profiles.init.init_times import PassTimes, read_profiling, read_times
from evenflow.profiles.yaml_file import load_yaml


@pytest.mark.parametrize(
    ("section", "part"),
    [
        ("{folder_path: t}", "must have the field 'micro_batch_num'"),
        ("{micro_batch_num: 8}", "must have the field 'folder_path'"),
        ("{micro_batch_num: 0, folder_path: t}", "integer from 1"),
        ("{micro_batch_num: 8, folder_path: 3}", "profiling_config.folder_path must be a text"),
        ("{micro_batch_num: 8, folder_path: t, body_layers: []}", "body_layers must be a name or a list of names"),
        ("{micro_batch_num: 8, folder_path: t, body_layers: [A, A]}", "must have every name once"),
        ("{micro_batch_num: 8, folder_path: t, head_layer: A}", "did you mean 'head_layers'?"),
    ],
)
def test_a_bad_profiling_section_is_named(section, part):
    with pytest.raises(InputError) as caught:
        read_profiling(load_yaml(f"profiling_config: {section}", file="init.yaml"))
    assert str(caught.value).startswith("init.yaml")
    assert part in str(caught.value)


def test_times_are_of_the_forward_and_named_after_the_layers():
    text = "time_config: {head: 0, body: 2.5, tail: 1}\nprofiling_config: {body_layers: Block}"
    times = read_times(load_yaml(text, file="init.yaml"))
    assert times is not None
    assert times.body == PassTimes(name="Block", forward_ns=2_500_000, backward_ns=5_000_000)
    assert (times.head.name, times.head.forward_ns) == ("LlamaEmbedding", 0)
    assert times.tail.name == "lm_head-Linear + LlamaRMSNorm"


def test_a_body_of_no_time_is_refused():
    with pytest.raises(InputError, match=r"line 1: time_config.body must be a nanosecond or more, .*got 1e-09"):
        read_times(load_yaml("time_config: {head: 0, body: 1.0e-9, tail: 1}", file="init.yaml"))


def test_absent_sections_are_none():
    top = load_yaml("pipeline_config: {}", file="init.yaml")
    assert read_times(top) is None
    assert read_profiling(top) is None
