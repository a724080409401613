"""Builds the decoders that transformers has, without memory for their numbers, and counts what they learn.

Run by `check.py` in the environment that has transformers: ``build.py ASKED.json FOUND.json``. The first file maps
names to the model type and the fields that differ from its defaults; without any, it is every type at its defaults.
Each model is built in a process of its own, which is stopped after a while.
"""

import json
import multiprocessing
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.models.auto import modeling_auto as auto
from transformers.models.llama import modeling_llama  # noqa: F401  what every model imports, before the processes part

SECONDS = 240
ROTARY = {"rope_type": "default", "rope_theta": 10000.0}
QWEN4 = {
    "indexer_n_heads": 16, "indexer_kv_heads": 1, "indexer_head_dim": 256, "indexer_budget": 2048,
    "indexer_compress_ratio": 16, "ple_layer_ids": [2, 6], "eos_token_id": 248044,
}  # fmt: skip
BY_KIND = {"rope_parameters": {"full_attention": ROTARY, "sliding_attention": ROTARY}}
LACKING: dict[str, dict[str, Any]] = {
    "chameleon": {"vocabulary_map": {"<image>": 1}},
    "cohere_compass": {"text_config": BY_KIND},
    "cohere_compass_text": BY_KIND,
    "dbrx": {"attn_config": {"kv_n_heads": 4, "rope_theta": 10000.0}},
    "deepseek_ocr2": {
        "text_config": {"num_experts_per_tok": 6, "mlp_layer_types": ["dense"] + ["sparse"] * 31}
    },
    "deepseek_v2": {"num_experts_per_tok": 6},
    "dots1": {
        "n_routed_experts": 128, "num_experts_per_tok": 6, "n_shared_experts": 2, "first_k_dense_replace": 1
    },
    "emu3": {"vocabulary_map": {"<image>": 1, "<|extra_200|>": 2}},
    "gemma4_assistant": {
        "text_config": {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0, "num_kv_shared_layers": 0}
    },
    "granite4_vision": {"deepstack_layer_map": [], "downsample_rate": "1/4"},
    "hunyuan_v1_dense": {"rope_parameters": ROTARY, "head_dim": 128},
    "hunyuan_v1_moe": {"rope_parameters": ROTARY, "head_dim": 128},
    "hunyuan_vl": {"text_config": {"head_dim": 128}},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 8},
    "ministral": {"rope_parameters": ROTARY, "head_dim": 128},
    "nemotron": {"head_dim": 128, "num_key_value_heads": 8},
    "qwen4_exp": {"text_config": QWEN4},
    "reformer": {"is_decoder": True},
    "qwen4_exp_text": QWEN4,
}  # fmt: skip
"""What the defaults of a type lack, without which no model is built or means anything."""
UNUSED = {
    "longcat_flash": lambda config: config.zero_expert_num * 2 * config.expert_ffn_hidden_size * config.num_layers
}
"""Numbers for each of the hidden size that a model holds and never reads: of experts that give a token back."""
FREEZES = ("blt", "idefics")
"""Types that are built with parts that learn nothing: by fields about their training (freeze_text_layers), or ever."""
OTHER_PARTS = ("embed_tokens_extend", "vision", "audio", "vqmodel", "perceiver")
"""Words in the name of a module that is not of the decoder."""


def model_types() -> list[str]:
    """Return every type of a causal language model, and of a model that answers with text about images."""
    names = (auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)
    return list(dict.fromkeys(name for mapping in names for name in mapping))


def counted(model_type: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a model, and how many numbers its decoder learns; tied ones count once."""
    fields = {key: value for key, value in given.items() if key not in ("model_type", "transformers_version")}
    config = AutoConfig.for_model(model_type, **(fields or LACKING.get(model_type, {})))
    result: dict[str, Any] = {"config": json.loads(config.to_json_string(use_diff=False))}
    result["config"]["model_type"] = model_type
    try:
        freezes = model_type in FREEZES
        learned = dict.fromkeys(each for each in decoder(config) if each.requires_grad or freezes)
        unused = UNUSED[model_type](config) * config.hidden_size if model_type in UNUSED else 0
        result["parameters"] = sum(each.numel() for each in learned) - unused
    except Exception as error:  # noqa: BLE001  any failure is told
        result["error"] = f"{type(error).__name__}: {error}"[:200]
    return result


def decoder(config: Any) -> Iterable[torch.nn.Parameter]:
    """Return the parameters of the decoder of a model, which has its part for text alone where it can be built so."""
    text = config.get_text_config(decoder=True)
    if text is not config and hasattr(config, "tie_word_embeddings"):
        text.tie_word_embeddings = config.tie_word_embeddings
    with torch.device("meta"):
        if type(text) in AutoModelForCausalLM._model_mapping:
            model = AutoModelForCausalLM.from_config(text)
        elif type(config) in AutoModelForImageTextToText._model_mapping:
            model = AutoModelForImageTextToText.from_config(config)
        else:
            model = AutoModelForCausalLM.from_config(config)
    model.tie_weights()
    whole = model if text is config or type(model.config) is type(text) else None
    if whole is None:
        yield from model.get_decoder().parameters()
        yield from model.get_output_embeddings().parameters()
        return
    yield from (each for name, each in whole.named_parameters() if not any(word in name for word in OTHER_PARTS))


def _work(model_type: str, given: dict[str, Any], answers: Any) -> None:
    try:
        answers.put(counted(model_type, given))
    except Exception as error:  # noqa: BLE001  any failure is told
        answers.put({"error": f"{type(error).__name__}: {error}"[:200]})


def main(asked: Path, found: Path) -> None:
    """Build and count; write what was found."""
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    names = json.loads(asked.read_text("utf-8")) or {name: [name, {}] for name in model_types()}
    context = multiprocessing.get_context("fork")
    models: dict[str, Any] = {}
    for name, (model_type, given) in names.items():
        answers = context.SimpleQueue()
        worker = context.Process(target=_work, args=(model_type, given, answers))
        worker.start()
        worker.join(SECONDS)
        if worker.is_alive():
            worker.kill()
            worker.join()
        models[name] = {"error": "it took too long"} if answers.empty() else answers.get()
    found.write_text(json.dumps({"version": transformers.__version__, "models": models}), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
