from argparse import Namespace

import pytest

from evenflow.cli.sapp.balancer_settings import BalancerSettings, check_layers, settings_of
from evenflow.cli.sapp.flags import parse
from evenflow.errors import InputError
from evenflow.model import Communication, Sizes
from evenflow.profiles.init.init_planning import InitPlanning, planning_of
from evenflow.profiles.training_file import TrainingSizes
from evenflow.profiles.yaml_file import load_yaml
from tests.networks import equal_network

MB = 2**20
EVERYTHING = (
    "pipeline_num: 16, num_layer: 96, micro_batch_num: 32, num_of_interleave: 3, vpp_less_memory: true, "
    "optimization_level: 1, memory_limit: 60000, constant_memory: 1024.5, enable_simulation: false, sim_comm_time: 0.5"
)


def flags(*arguments: object) -> Namespace:
    return parse([str(argument) for argument in arguments])


def init(fields: str) -> InitPlanning:
    return planning_of(load_yaml(f"pipeline_config: {{{fields}}}", file="init.yaml"))


def training(**sizes: int) -> TrainingSizes:
    known = dict.fromkeys(("num_stages", "num_microbatches", "num_layers", "sequence_length")) | sizes
    return TrainingSizes(file="train.yaml", layers_place="train.yaml: model.model_config.num_layers", **known)


def test_the_defaults_are_those_of_the_guide():
    assert settings_of(flags("-m", "x")) == BalancerSettings(
        sizes=Sizes(num_ranks=4, num_microbatches=4), schedule="1f1b", memory_limit_bytes=56000 * MB
    )


def test_an_init_file_says_what_no_flag_says():
    settings = settings_of(flags("-m", "x"), init=init(EVERYTHING))
    assert settings.sizes == Sizes(num_ranks=16, num_chunks=3, num_microbatches=32)
    assert (settings.schedule, settings.memory_limit_bytes) == ("interleaved-less-memory", 60000 * MB)
    assert (settings.constant_bytes, settings.communication) == (
        round(1024.5 * MB),
        Communication(transfer_ns=500_000),
    )
    assert not settings.is_drawn
    assert settings.notes[0] == (
        "from init.yaml: pipeline_num 16, micro_batch_num 32, num_of_interleave 3, vpp_less_memory true, "
        "memory_limit 60000 MB, constant_memory 1024.5 MB, sim_comm_time 0.5 ms"
    )
    assert [note.split()[0] for note in settings.notes[1:]] == ["optimization_level", "enable_simulation"]


def test_flags_win_and_only_the_rest_is_said():
    asked = flags("-s", 8, "-mb", 16, "-i", 2, "-lm", 0, "-mem", "40GB", "-mc", 0, "-O", 1)
    settings = settings_of(asked, init=init(EVERYTHING), training=training(num_stages=4, num_microbatches=8))
    assert settings.sizes == Sizes(num_ranks=8, num_chunks=2, num_microbatches=16)
    assert (settings.schedule, settings.memory_limit_bytes, settings.constant_bytes) == ("interleaved", 40 * 2**30, 0)
    assert settings.notes[0] == "from init.yaml: sim_comm_time 0.5 ms"
    assert settings.notes[1].startswith("-O has no effect")


def test_the_training_file_wins_over_the_init_file():
    settings = settings_of(flags("-m", "x"), init=init("pipeline_num: 16"), training=training(num_stages=8))
    assert settings.sizes.num_ranks == 8
    assert settings.notes == ("from train.yaml: pipeline_stage 8",)


@pytest.mark.parametrize(("splits", "is_noted"), [(1, False), (2, False), (4, True)])
def test_short_parts_of_a_sequence_are_noted_and_kept(splits, is_noted):
    settings = settings_of(flags("--seq", splits), training=training(sequence_length=8192))
    assert settings.sizes.sequence_splits == splits
    assert any("2048 tokens" in note for note in settings.notes) == is_noted


def test_dualpipe_v_has_two_chunks():
    settings = settings_of(flags("-dual", 1), init=init("num_of_interleave: 3, vpp_less_memory: true"))
    assert (settings.schedule, settings.sizes.num_chunks, settings.notes) == ("dualpipe-v", 2, ())
    assert settings.schedule_of_chunks(2) == "dualpipe-v"
    assert settings.schedule_of_chunks(3) == "interleaved"
    for wrong in (("-i", 3), ("-lm", 1)):
        with pytest.raises(InputError, match="beside -dual"):
            settings_of(flags("-dual", 1, *wrong))


def test_the_constant_memory_replaces_that_of_the_model():
    network = equal_network(4)
    assert settings_of(flags("-mc", 300)).applied(network).constant_bytes == 300 * MB
    assert settings_of(flags("-s", 2)).applied(network) == network


def test_split_sequences_keep_keys_and_values_of_the_whole_sequence():
    """By the original's formula: (act - kv) / k + kv for a part in flight, and 2 kv for caches and their gradients."""
    network = equal_network(4, "select", parameter_bytes=50 * MB, activation_bytes=100 * MB)
    asked = flags("-seq", 4)
    settings = settings_of(asked, training=training(key_value_bytes=20 * MB))
    layer = settings.applied(network).split_sequence(4).runs[0].layer
    assert layer.parameter_bytes == 90 * MB
    assert {mode.activation_bytes for mode in layer.modes.values()} == {(100 - 20) * MB // 4 + 20 * MB}
    assert settings.notes == (
        "every layer keeps 40.0 MB more, and every part of a sequence in flight 15.0 MB more, for "
        "the keys and values of the whole sequence",
    )
    assert settings_of(flags("-seq", 1), training=training(key_value_bytes=20 * MB)).applied(network) == network


def test_a_file_about_another_model_is_refused():
    check_layers(equal_network(4), 4, place="train.yaml")
    check_layers(equal_network(4), None, place="train.yaml")
    with pytest.raises(InputError, match=r"train.yaml must be the number of body layers of equal \(4\), got 5"):
        check_layers(equal_network(4), 5, place="train.yaml")
