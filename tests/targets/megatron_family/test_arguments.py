"""Names of Megatron-LM's arguments: which concern the pipeline or activations, and which do not."""

import pytest

from evenflow.errors import InputError
from evenflow.ranges import LAYERS
from evenflow.targets.megatron_family.arguments import arguments_of, is_relevant, printed_arguments

RELEVANT = (
    "num_layers pipeline_model_parallel_layout pipeline_model_parallel_split_rank recompute_modules "
    "moe_layer_recompute num_microbatches_with_partial_activation_checkpoints hybrid_layer_pattern "
    "hybrid_override_pattern fine_grained_activation_offloading offload_modules cpu_offloading_num_layers "
    "decoder_num_layers noop_layers num_layer_list hetero_pipeline_layer_split virtual_pipeline_model_parallel_size "
    "standalone_embedding_stage overlap_moe_expert_parallel_comm delay_wgrad_compute checkpoint_activations enable_vpp"
)
IRRELEVANT = (
    "hidden_size lr micro_batch bf16 num_query_groups optimizer_cpu_offload optimizer_offload_fraction save load "
    "pipeline_model_parallel_comm_backend transformer_pipeline_model_parallel_size ckpt_format use_checkpoint_args "
    "no_scatter_gather_tensors_in_pipeline sequence_parallel inference_max_batch_size num_layers_to_keep_tokens"
)


@pytest.mark.parametrize("name", RELEVANT.split())
def test_names_of_the_pipeline_and_of_activations(name: str) -> None:
    assert is_relevant(name)


@pytest.mark.parametrize("name", IRRELEVANT.split())
def test_other_names(name: str) -> None:
    assert not is_relevant(name)


def test_decoded_fields_of_a_configuration() -> None:
    found = arguments_of(
        {"num_layers_in_first_pipeline_stage": 3, "num_layers": None, "moe_layer_recompute": False, "vpp_magic": 2},
        file="a.yaml",
        lines={"vpp_magic": 7},
    )
    assert found.values == {"decoder_first_pipeline_num_layers": 3}
    assert found.unknown == ("a.yaml, line 7: vpp_magic",)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_layers": True}, "a.yaml: num_layers must be an integer from 1 to 100,000, got True"),
        ({"num_layers": 10**30}, "a.yaml: num_layers must be an integer from 1 to 100,000"),
        ({"num_layers": "`x`"}, "a.yaml: num_layers must be an integer from 1 to 100,000, got '`x`'; write its value"),
    ],
)
def test_values_of_other_types(values: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as raised:
        arguments_of(values, file="a.yaml").integer("num_layers", LAYERS)
    assert raised.value.message.startswith(message)


def test_other_types_of_other_arguments() -> None:
    arguments = arguments_of({"recompute_activations": "yes", "recompute_modules": 3}, file="a.yaml")
    with pytest.raises(InputError, match=r"a\.yaml: recompute_activations must be true or false, got 'yes'"):
        arguments.switch("recompute_activations")
    with pytest.raises(InputError, match=r"a\.yaml: recompute_modules must be a list of texts, got 3"):
        arguments.texts("recompute_modules")


def test_the_last_of_several_printed_runs_counts() -> None:
    text = "  num_layers ..... 4\n noise\n  num_layers ..... 8\n  recompute_modules ..... ['core_attn', 'moe_act']\n"
    found = printed_arguments(text, file="run.log")
    assert found.values == {"num_layers": 8, "recompute_modules": ["core_attn", "moe_act"]}
    assert found.lines == {"num_layers": 3, "recompute_modules": 4}
