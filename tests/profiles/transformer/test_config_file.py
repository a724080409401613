"""Configurations as transformers in plain numbers: beside the models that transformers builds, and published totals."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.fields import as_fields
from evenflow.predict.parameters import model_parameters
from evenflow.predict.transformer import DENSE, Biases, Transformer
from evenflow.profiles.transformer.config_file import read_transformer, transformer_of_config
from evenflow.profiles.transformer.families import FAMILIES
from evenflow.profiles.transformer.field_names import KNOWN, misspelt
from evenflow.profiles.transformer.numbers import Described
from evenflow.profiles.transformer.spellings import SPELLINGS
from evenflow.profiles.transformer.traits import SWITCHED
from tests.paths import ROOT
from tests.profiles.transformer.published_configs import PUBLISHED
from tests.profiles.transformer.small_configs import SMALL_CONFIGS

NOT_IN_TRANSFORMERS = {"deepseek", "kimi_k2", "baichuan", "internlm2", "chatglm", "qwen"}
PARTS_OF_OTHERS = {"qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "glm4v", "glm4v_moe", "phi4_multimodal"}
PARTS_OF_OTHERS |= {
    "qwen2_5_omni",
    "qwen3_omni_moe",
    "step3p5",
    "kosmos_2_text_model",
    "kosmos_2_5_text_model",
    "mllama_text_model",
}

INSTEAD = "; describe its layers in a layer file, or measure its modules with evenflow profile"


def read(config: dict[str, object]) -> Described:
    return transformer_of_config(as_fields(config, file="config.json"))


def counted(model: Transformer) -> int:
    """Parameters without the blocks that predict further tokens, which transformers does not build."""
    return model_parameters(replace(model, predicted_tokens=0))


def test_every_known_type_is_compared() -> None:
    compared = {str(values["model_type"]) for values in SMALL_CONFIGS.values()}
    published = {str(values["model_type"]) for values, _total in PUBLISHED.values()}
    compared |= {model_type.removesuffix("_text") for model_type in compared}
    assert set(FAMILIES) - compared - published == PARTS_OF_OTHERS | {"internlm"}
    assert published >= NOT_IN_TRANSFORMERS


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_totals(name: str) -> None:
    values, total = PUBLISHED[name]
    assert counted(read(values).model) == total


def test_types_that_are_built_as_another_one() -> None:
    internlm = read({**SMALL_CONFIGS["llama"], "model_type": "internlm"}).model
    assert internlm == read({**SMALL_CONFIGS["llama"], "attention_bias": True}).model
    for name, same in (
        ("qwen2_vl", "qwen2"),
        ("qwen2_5_vl_text", "qwen2"),
        ("qwen3_vl_text", "qwen3"),
        ("glm4v", "glm4"),
    ):
        assert read({**SMALL_CONFIGS[same], "model_type": name}).model == read(SMALL_CONFIGS[same]).model


def test_windows_of_layers() -> None:
    def whole(name: str) -> tuple[int, tuple[int, ...]]:
        model = read(SMALL_CONFIGS[name]).model
        return model.window, model.unwindowed_layers

    assert whole("mistral") == (16, ())
    assert whole("gpt_oss") == whole("gemma2") == (16, (1, 3))
    assert whole("cohere2") == whole("exaone4") == whole("olmo3") == (16, (3,))
    assert whole("qwen2") == whole("llama") == (0, ())
    assert whole("inkling_mm_model") == (512, (2, 6))
    assert whole("muse_glimmer") == (16, (1, 5))
    neo = {**SMALL_CONFIGS["gpt_neo"], "window_size": 8, "attention_layers": ["global", "local"] * 2}
    assert (read(neo).model.window, read(neo).model.unwindowed_layers) == (8, (0, 2))
    letters = {**SMALL_CONFIGS["exaone4"], "sliding_window_pattern": "LG"}
    assert read(letters).model.unwindowed_layers == (1, 3)
    six = read({**SMALL_CONFIGS["gemma3_text"], "num_hidden_layers": 12}).model
    assert six.unwindowed_layers == (5, 11)
    listed = {"layer_types": ["full_attention", "sliding_attention"] * 2}
    assert read({**SMALL_CONFIGS["gpt_oss"], **listed}).model.unwindowed_layers == (0, 2)
    qwen = {**SMALL_CONFIGS["qwen2"], "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 3}
    assert read(qwen).model.unwindowed_layers == (0, 1, 2)
    assert read({**qwen, "max_window_layers": 9}).model.window == 0
    assert read({**qwen, "use_sliding_window": None}).model.window == 0


def test_layers_of_experts() -> None:
    def layers(name: str) -> list[int]:
        model = read(SMALL_CONFIGS[name]).model
        return [layer for layer in range(model.layers) if model.kind(layer).experts]

    assert layers("mixtral") == [0, 1, 2, 3]
    assert layers("deepseek_v2") == [1, 2, 3]
    assert layers("ernie4_5_moe") == layers("llama4_text") == layers("glm4_moe_lite") == [1, 3]
    assert layers("qwen2_moe, dense layers") == [1]
    assert layers("qwen3_moe, dense layers") == [1, 3]
    assert layers("llama") == []
    step = SMALL_CONFIGS["step3p7, names of its publisher"]
    assert layers("step3p7, names of its publisher") == [1, 3]
    assert isinstance(step["text_config"], dict)
    with pytest.raises(InputError, match="must be integers with commas between them, got '1,x'"):
        read({**step, "text_config": {**step["text_config"], "moe_layers_enum": "1,x"}})


def test_the_part_for_text_is_taken() -> None:
    text = {**SMALL_CONFIGS["gemma3_text"], "tie_word_embeddings": None}
    config = {"model_type": "gemma3", "text_config": text, "vision_config": {"hidden_size": 99}}
    found = read(config)
    assert found.model == read(SMALL_CONFIGS["gemma3_text"]).model
    assert found.notes == (
        "the parts for images and sound are left out", "the sizes are those of the part for text (text_config)"
    )  # fmt: skip
    assert not read({**config, "tie_word_embeddings": False}).model.tied


def test_a_part_for_text_that_does_not_say_its_type_is_of_the_type_of_the_whole() -> None:
    text = {key: value for key, value in SMALL_CONFIGS["gemma3_text"].items() if key != "model_type"}
    found = read({"model_type": "gemma3", "text_config": text})
    assert found.model == read(SMALL_CONFIGS["gemma3_text"]).model
    assert found.notes == ("the sizes are those of the part for text (text_config)",)


def test_windows_may_have_heads_of_their_own_in_an_object() -> None:
    found = read(SMALL_CONFIGS["step3p7, names of its publisher"]).model
    assert [found.with_sizes_of(kind).heads for kind in found.kinds] == [4, 4, 4, 8]
    assert found.further_kind == DENSE


def test_an_unknown_type_is_read_by_its_fields() -> None:
    llama = SMALL_CONFIGS["qwen2"]
    found = read({**llama, "model_type": "new_one", "attention_bias": True})
    assert found.model == replace(read(llama).model, biases=Biases(queries=True, out=True))
    assert found.notes == ("models of type new_one are not known: it is read by its fields",)
    plain = read({**llama, "model_type": "new_one", "hidden_act": "gelu", "layer_norm_eps": 1e-5}).model
    assert not plain.gated
    assert plain.biases == Biases(norms=True)
    assert read(llama).notes == ()


def test_further_tokens_are_noted() -> None:
    found = read(SMALL_CONFIGS["deepseek_v3, biases"])
    assert found.model.predicted_tokens == 1
    assert found.notes == ("1 further token is predicted, by a block of its own (multi-token prediction)",)


def test_what_predicts_further_tokens_may_stand_beside_the_part_for_text() -> None:
    config = {**SMALL_CONFIGS["inkling_mm_model"], "mtp_config": {"num_nextn_predict_layers": 2}}
    found = read(config).model
    assert found.predicted_tokens == 2
    assert found.further_kind == DENSE
    assert replace(found, predicted_tokens=0) == read(SMALL_CONFIGS["inkling_mm_model"]).model


def test_a_file_is_called_like_itself_or_like_its_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SMALL_CONFIGS["llama"]), encoding="utf-8")
    found = read_transformer(tmp_path)
    assert found.model.name == tmp_path.name
    assert found == read_transformer(str(tmp_path / "config.json"))
    (tmp_path / "other.json").write_text("[", encoding="utf-8")
    with pytest.raises(InputError, match=r"cannot read .*other.json: not JSON"):
        read_transformer(tmp_path / "other.json")
    with pytest.raises(InputError, match=r"cannot read .*none.json: no such file"):
        read_transformer(tmp_path / "none.json")


def test_the_examples_are_read() -> None:
    files = (ROOT / "examples" / "configs").glob("*.json")
    totals = {path.stem: counted(read_transformer(path).model) for path in files}
    assert totals["llama3_70b"] == 70_553_706_496
    assert totals["llama3_405b"] == PUBLISHED["Llama-3.1 405B"][1]
    assert totals["mixtral_8x7b"] == PUBLISHED["Mixtral 8x7B"][1]
    assert totals["qwen3_235b"] == PUBLISHED["Qwen3 235B-A22B"][1]
    assert totals["deepseek_v3"] == PUBLISHED["DeepSeek-V3"][1]
    assert totals["kimi_k2"] == PUBLISHED["Kimi K2"][1]
    assert totals["kimi_k3"] == PUBLISHED["Kimi K3"][1]
    wide, deep = 12_288, 96
    tables = (50_257 + 2_048) * wide
    assert totals["gpt3_175b"] == 12 * deep * wide**2 + 13 * deep * wide + tables + 2 * wide  # [arXiv:2104.04473, 5.1]


_VALUES = (
    st.none() | st.booleans() | st.integers() | st.integers(-3, 9) | st.floats() | st.text(max_size=9)
    | st.lists(st.integers(-1, 9) | st.text(max_size=3), max_size=5)
    | st.dictionaries(st.text("abc_ ", max_size=5), st.integers())
)  # fmt: skip
_KEYS = sorted({key.split(".")[0] for keys in SPELLINGS.values() for key in keys} | set(SWITCHED) | {
    "model_type", "text_config", "layer_types", "mlp_layer_types", "moe_layers", "moe_layer_freq", "mlp_only_layers",
    "attention_layers",
    "moe_layer_end_index", "decoder_sparse_step", "sliding_window_pattern", "max_window_layers", "expansion_ratio",
    "hidden_act", "use_sliding_window", "num_ln_in_parallel_attn", "tie_word_embeddings", "attention_dropout",
    "word_embed_proj_dim", "qk_layernorm", "multi_query",
})  # fmt: skip


@given(
    name=st.sampled_from(sorted(SMALL_CONFIGS)), spoiled=st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=4)
)
def test_whatever_a_field_has_it_is_read_or_refused_in_one_line(name: str, spoiled: dict[str, object]) -> None:
    message, parameters = "", 0
    try:
        parameters = model_parameters(read({**SMALL_CONFIGS[name], **spoiled}).model)
    except InputError as error:
        message = str(error)
    assert parameters > 0 or message.startswith("config.json")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"hidden_size": None},
            " must have the field 'hidden_size'; write it, under this name or as n_embd, d_model, dim, embedding_dim, "
            "embed_dim",
        ),
        (
            {"vocab_size": None},
            " must have the field 'vocab_size'; write it, under this name or as padded_vocab_size, n_token",
        ),
        (
            {"model_type": None},
            ": model_type must be a text that is not empty",
        ),
        (
            {"num_hidden_layers": "4"},
            ": num_hidden_layers must be an integer from 1 to 1,000, got '4'",
        ),
        (
            {"hidden_size": 10**12},
            ": hidden_size must be an integer from 1 to 100,000,000, got 1000000000000",
        ),
        (
            {"head_dim": -1},
            ": head_dim must be an integer from 1 to 100,000,000, got -1",
        ),
        (
            {"num_key_value_heads": 3},
            ": model, kv_heads must divide the 8 heads of the queries, got 3",
        ),
        (
            {"num_local_experts": 8},
            " must have the field 'num_experts_per_tok'; write it, under this name or as "
            "num_experts_per_token, moe_topk, moe_top_k, moe_k, top_k, top_k_experts, ffn_config.moe_top_k",
        ),
        (
            {"num_local_experts": 8, "num_experts_per_tok": 9},
            ": model, active_experts must be from 1 to the 8 experts, got 9",
        ),
        (
            {"hidden_size": 60},
            ": heads must divide the hidden size (60), or their width must be given, got 8; give the width of a head",
        ),
        (
            {"attention_bias": "yes"},
            ": attention_bias must be true or false, got 'yes'",
        ),
        (
            {"model_type": "t5"},
            ": model_type is of a model that is not read: its decoder reads from an encoder, and only "
            f"decoders are predicted, got 't5'{INSTEAD}",
        ),
        *(
            (
                {"model_type": name},
                f": model_type is of a model that is not read: its decoder reads from an encoder, and only decoders "
                f"are predicted, got '{name}'{INSTEAD}",
            )
            for name in ("blip", "evolla", "diffusion_gemma_text")
        ),
        (
            {"model_type": "pi0"},
            ": model_type is of a model that is not read: a model for actions is computed beside it, reads the keys "
            f"and values of its layers and is all that has a loss, got 'pi0'{INSTEAD}",
        ),
        (
            {"model_type": "gemma4_assistant"},
            ": model_type is of a model that is not read: it drafts tokens for another model, without whose keys and "
            "values it computes nothing, got 'gemma4_assistant'; give the configuration of the model that it drafts "
            "for, which is trained without it",
        ),
        (
            {"is_encoder_decoder": True},
            ": model_type is of a model that is not read: its decoder reads from an encoder, and only "
            f"decoders are predicted, got 'llama'{INSTEAD}",
        ),
        (
            {"linear_num_key_heads": 16},
            ": linear_num_key_heads is of a model that is not read: it has layers with a state in the place "
            f"of attention, whose times are not predicted, got 16{INSTEAD}",
        ),
        (
            {"layer_types": ["full_attention", "linear_attention", "full_attention", "linear_attention"]},
            ": layer_types must have attention in every layer, whole or within a window, got 'linear_attention'",
        ),
        (
            {"layer_types": ["full_attention"], "sliding_window": 8},
            ": layer_types must have an entry for each of the 4 layers, got 1",
        ),
        (
            {"intermediate_size": [112, 112, 0, 100]},
            ": intermediate_size must be a list of integers from 1 to 100,000,000, got [112, 112, 0, 100]",
        ),
        (
            {"intermediate_size": [112, 100]},
            ": intermediate_size must have an entry for each of the 4 layers, got 2",
        ),
        (
            {"num_local_experts": [4, 4, 4, 8]},
            ": num_local_experts must be the same for all layers, got [4, 4, 4, 8]",
        ),
        (
            {"num_local_experts": 4, "num_experts_per_tok": 2, "moe_layer_freq": 0},
            ": moe_layer_freq must be an integer of at least 1, got 0",
        ),
        (
            {"num_local_experts": 4, "num_experts_per_tok": 2, "moe_layer_freq": [1]},
            ": moe_layer_freq must have an entry for each of the 4 layers, got 1",
        ),
        (
            {"num_local_experts": 4, "num_experts_per_tok": 2, "mlp_only_layers": 3},
            ": mlp_only_layers must be a list of integers, got 3",
        ),
        (
            {"word_embed_proj_dim": 32},
            ": word_embed_proj_dim must be the hidden size, got 32",
        ),
    ],
)
def test_what_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as refused:
        read({**SMALL_CONFIGS["llama"], **changes})
    assert str(refused.value) == f"config.json{message}"


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("opt", {"enable_bias": False}, "enable_bias must be true: models of this type are not read with another one"),
        ("doge", {"is_moe": True}, "is_moe must be false: models of this type are not read with another one"),
        ("laguna", {"gating": False}, 'gating must be true or "per-head" or "per-element": models of this type'),
        ("gpt2", {"add_cross_attention": True}, "add_cross_attention must be false"),
        ("apertus1p5_text", {"output_vocab_size": 7}, "output_vocab_size must be the vocabulary"),
        ("axk2", {"q_lora_rank": 0}, "q_lora_rank must be an integer from 1 to 100,000,000, got 0"),
        ("llama", {"hc_count": 4}, "hc_count is of a model that is not read: it has further parts in every layer"),
        ("llama", {"hc_mult": 4}, "hc_mult is of a model that is not read: it has further parts in every layer"),
    ],
)
def test_values_with_which_a_type_has_other_parts(name: str, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=f"config.json: {message}"):
        read({**SMALL_CONFIGS[name], **changes})


def test_a_table_of_its_own_whatever_the_file_says() -> None:
    found = read({**SMALL_CONFIGS["kimi_linear"], "tie_word_embeddings": True})
    assert not found.model.tied
    assert found.notes == ("the output layer has a table of its own in every model of type kimi_linear",)
    assert read(SMALL_CONFIGS["kimi_linear"]).notes == ()


TYPOS = (
    "num_key_value_headsx",
    "num_key_valu_heads",
    "num_key_value_haeds",
    "Num_Key_Value_Heads",
    "num-key-value-heads",
)


@pytest.mark.parametrize("typo", TYPOS)
def test_a_misspelt_name_that_changes_the_answer_is_an_error(typo: str) -> None:
    values = {**SMALL_CONFIGS["llama"], "num_key_value_heads": 2, "num_attention_heads": 4}
    values[typo] = values.pop("num_key_value_heads")
    with pytest.raises(
        InputError, match=rf"config.json: {typo} is an unknown field; did you mean 'num_key_value_heads'"
    ):
        read(values)


def test_a_misspelt_name_of_a_size_that_must_be_there_is_named() -> None:
    values = dict(SMALL_CONFIGS["llama"])
    values["hiden_size"] = values.pop("hidden_size")
    with pytest.raises(InputError, match="hiden_size is an unknown field; did you mean 'hidden_size'"):
        read(values)


def test_a_misspelt_name_that_changes_nothing_is_a_note() -> None:
    values = {**SMALL_CONFIGS["llama"], "hidden_sizee": 7, "atention_bias": False}
    described = read(values)
    assert described.model == read(SMALL_CONFIGS["llama"]).model
    assert [note for note in described.notes if "did you mean" in note] == [
        "config.json: hidden_sizee is not known and left out; did you mean 'hidden_size'?",
        "config.json: atention_bias is not known and left out; did you mean 'attention_bias'?",
    ]


def test_a_misspelt_name_in_the_part_for_text() -> None:
    text = {**SMALL_CONFIGS["llama"], "num_key_value_headsx": 1}
    del text["num_key_value_heads"]
    with pytest.raises(InputError, match=r"text_config\.num_key_value_headsx is an unknown field"):
        read({"model_type": "some_vl", "vision_config": {}, "text_config": text})


@pytest.mark.parametrize("values", [*SMALL_CONFIGS.values(), *(values for values, _total in PUBLISHED.values())])
def test_no_name_of_a_real_model_is_taken_for_a_misspelt_one(values: dict[str, object]) -> None:
    assert not misspelt(as_fields(values, file="config.json"))


@given(st.sampled_from(sorted(KNOWN)))
def test_known_names_are_known(name: str) -> None:
    assert not misspelt(as_fields({name: 1}, file="config.json"))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("hidden_act", True, "hidden_act must be a text"),
        ("activation_function", 3, "activation_function must be a text"),
        ("model_type", "\U0001f642", "model_type must be the name of a type of models"),
        ("model_type", "a b", "model_type must be the name of a type of models"),
    ],
)
def test_values_that_name_nothing(key: str, value: object, message: str) -> None:
    values = {key: value for key, value in SMALL_CONFIGS["llama"].items() if key != "hidden_act"}
    with pytest.raises(InputError, match=message):
        read({**values, key: value})


def test_a_type_that_is_nearly_known_is_asked_for() -> None:
    assert "did you mean 'llama'?" in read({**SMALL_CONFIGS["llama"], "model_type": "lama"}).notes


def test_experts_in_groups_are_chosen_from_some_of_them() -> None:
    def experts(**groups: object) -> tuple[int, int]:
        path = ROOT / "examples" / "configs" / "deepseek_v3.json"
        found = read(json.loads(path.read_text(encoding="utf-8")) | groups).model.experts
        assert found is not None
        return found.groups, found.chosen_groups

    assert experts() == (8, 4)
    assert experts(n_group=1, topk_group=1) == experts(n_group=0, topk_group=0) == (1, 1)
    with pytest.raises(InputError, match=r"topk_group must be at most the groups of experts \(8\), got 9"):
        experts(topk_group=9)
