"""Builds every decoder of transformers at its default configuration, without memory, and counts. Run by `check.py`.

Run in the environment that has transformers: ``build.py OUTPUT.json [TYPE ...]``. Each model is built in a process of
its own, which is stopped after a while.
"""

import json
import multiprocessing
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.auto import modeling_auto as auto
from transformers.models.llama import modeling_llama  # noqa: F401  what every model imports, before the processes part

SECONDS = 240
WITH_IMAGES = (
    "aya_vision", "cohere2_vision", "ernie4_5_vl_moe", "exaone4_5", "gemma3", "gemma3n", "gemma4", "glm46v", "glm4v",
    "glm4v_moe", "granite4_vision", "idefics3", "internvl", "kimi_k25", "lfm2_vl", "llama4", "llava", "llava_next",
    "minimax_m3_vl", "mistral3", "mistral4", "paligemma", "qwen2_5_vl", "qwen2_vl", "qwen3_5", "qwen3_5_moe",
    "qwen3_vl", "qwen3_vl_moe", "smolvlm", "step3p7",
)  # fmt: skip
"""Models that take images, of which the part for text is a decoder."""
ROTARY = {"rope_type": "default", "rope_theta": 10000.0}
LACKING: dict[str, dict[str, Any]] = {
    "deepseek_v2": {"num_experts_per_tok": 6},
    "hunyuan_v1_dense": {"rope_parameters": ROTARY},
    "hunyuan_v1_moe": {"rope_parameters": ROTARY},
    "ministral": {"rope_parameters": ROTARY},
    "nemotron": {"head_dim": 128},
}
"""What the defaults of a type lack, without which no model is built or means anything."""
UNUSED = {"longcat_flash": lambda config: config.zero_expert_num * 2 * config.expert_ffn_hidden_size}
"""Numbers for each number of the hidden size and layer that a model holds and never reads."""
OF_IMAGES = ("embed_tokens_extend", "vision", "audio")
"""Parts of a module's name that are not of its decoder."""


def model_types() -> dict[str, str]:
    """Return every model type, with the mapping of transformers that has it."""
    names = dict.fromkeys(auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, "causal")
    of_images = auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
    return names | {key: "images" for key in WITH_IMAGES if key in of_images and key not in names}


def counted(model_type: str) -> dict[str, Any]:
    """Return the configuration of a type, and how many parameters its decoder has; tied ones count once."""
    lacking = LACKING.get(model_type, {})
    config = AutoConfig.for_model(model_type, **lacking)
    result: dict[str, Any] = {"config": json.loads(config.to_json_string()), "given": sorted(lacking)}
    try:
        text = config.get_text_config(decoder=True)
        if text is not config and hasattr(config, "tie_word_embeddings"):
            text.tie_word_embeddings = config.tie_word_embeddings
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(text)
        model.tie_weights()
        found = dict.fromkeys(each for name, each in model.named_parameters() if not any(x in name for x in OF_IMAGES))
        result["parameters"] = sum(each.numel() for each in found if each.requires_grad)
        if model_type in UNUSED:
            result["parameters"] -= UNUSED[model_type](text) * text.hidden_size * text.num_hidden_layers
    except Exception as error:
        result["error"] = f"{type(error).__name__}: {error}"[:300]
    return result


def _work(model_type: str, answers: Any) -> None:
    try:
        answers.put(counted(model_type))
    except Exception as error:
        answers.put({"error": f"{type(error).__name__}: {error}"[:300]})


def main(output: Path, chosen: list[str]) -> None:
    """Build and count; write what was found."""
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    context = multiprocessing.get_context("fork")
    found: dict[str, Any] = {}
    for model_type, mapping in model_types().items():
        if chosen and model_type not in chosen:
            continue
        answers = context.SimpleQueue()
        worker = context.Process(target=_work, args=(model_type, answers))
        worker.start()
        worker.join(SECONDS)
        if worker.is_alive():
            worker.kill()
            worker.join()
        answer = {"error": "it took too long"} if answers.empty() else answers.get()
        found[model_type] = answer | {"mapping": mapping}
    output.write_text(json.dumps({"version": transformers.__version__, "models": found}, indent=1), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
