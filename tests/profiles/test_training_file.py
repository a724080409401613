import pytest

from evenflow.errors import InputError
from evenflow.profiles.training_file import TrainingSizes, read_training_sizes


def sizes(folder, text: str) -> TrainingSizes:
    file = folder / "train.yaml"
    file.write_text(text)
    return read_training_sizes(file)


def test_the_sizes_of_an_older_and_of_a_newer_model(tmp_path):
    parallel = "parallel_config: {data_parallel: 2, pipeline_stage: 16, micro_batch_num: 32}\n"
    old = sizes(tmp_path, parallel + "model: {model_config: {num_layers: 96, seq_length: 8192}}\n")
    assert (old.num_stages, old.num_microbatches, old.num_layers, old.sequence_length) == (16, 32, 96, 8192)
    new = sizes(tmp_path, parallel + "model: {model_config: {num_hidden_layers: 48}}\n")
    assert (new.num_layers, new.sequence_length) == (48, None)
    assert new.layers_place.endswith("train.yaml, line 2: model.model_config.num_hidden_layers")


def test_what_is_not_there_is_not_known(tmp_path):
    for text in ("seed: 0\n", "parallel_config:\nmodel:\n", "model: {model_config: {}}\n"):
        read = sizes(tmp_path, text)
        assert (read.num_stages, read.num_microbatches, read.num_layers, read.sequence_length) == (None,) * 4


@pytest.mark.parametrize("value", ["0", "many", "true", "1.5", "[4]"])
def test_a_wrong_size_is_named_with_its_line(tmp_path, value):
    text = f"seed: 0\nparallel_config:\n  pipeline_stage: {value}\n"
    with pytest.raises(InputError, match=r"train.yaml, line 3: parallel_config.pipeline_stage must be an integer"):
        sizes(tmp_path, text)


def test_a_file_that_is_no_yaml_is_refused(tmp_path):
    with pytest.raises(InputError, match="not YAML"):
        sizes(tmp_path, "a: [")


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        # [SAPP guide, the 175B example] 2 tensors of 1 x 8192 tokens x 16 heads x 128 numbers of 2 bytes.
        ("seq_length: 8192, hidden_size: 12288, num_heads: 96, n_kv_heads: 16, compute_dtype: bfloat16", 64 * 2**20),
        ("seq_length: 8192, hidden_size: 12288, num_heads: 96, compute_dtype: float32", 768 * 2**20),
        ("seq_length: 8192, hidden_size: 12288", None),
    ],
)
def test_the_keys_and_values_of_a_layer(tmp_path, model, expected):
    text = f"model: {{model_config: {{{model}}}}}\n"
    assert sizes(tmp_path, text).key_value_bytes == expected
    shared = text + "parallel_config: {model_parallel: 8}\nrunner_config: {batch_size: 2}\n"
    assert sizes(tmp_path, shared).key_value_bytes == (expected and expected * 2 // 8)
