"""Models of a run are the same however they are split."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow_torch.run.job.models import build_model, materialise, tokens
from evenflow_torch.run.values.run_job import RunJob
from tests_torch.models.families.small_models import small
from tests_torch.run.job.launched import job
from tests_torch.run.models import VOCABULARY


def _asked(**changes: Any) -> RunJob:
    return replace(job(2), model="config.json", **changes)


@pytest.mark.parametrize("tied", [False, True])
def test_initial_values_do_not_depend_on_the_split(tied: bool) -> None:
    config = (
        f'{{"model_type": "llama", "tie_word_embeddings": {str(tied).lower()}, "vocab_size": 32, "hidden_size": 8, '
    )
    config += '"intermediate_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2}'
    asked = _asked(config=config)

    def values(parts: slice) -> dict[str, Any]:
        model = build_model(asked)
        materialise(model, list(model.parts[parts]), seed=4, device=torch.device("cpu"))
        state = model.whole.state_dict()
        return {name: value for name, value in state.items() if not value.is_meta}

    whole, first, last = values(slice(None)), values(slice(2)), values(slice(2, None))
    assert set(first) | set(last) == set(whole)
    for part in (first, last):
        assert all(torch.equal(value, whole[name]) for name, value in part.items())
    assert torch.equal(whole["lm_head.weight"], whole["model.embed_tokens.weight"]) == tied


def test_layers_of_an_encoder_are_not_all_layers() -> None:
    """Published configurations of BART say how many layers its encoder has under the name of a decoder's."""
    config = json.dumps(small("bart", num_hidden_layers=3))
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((3, 3),))
    model = build_model(_asked(config=config, plan=plan, target_length=8))
    assert model.num_layers == 6


@pytest.mark.parametrize("config", ['{"model_type": "granite"}', '{"model_type": "llama", "hidden_size": "x"}', "{}"])
def test_a_configuration_that_makes_no_llama_is_refused(config: str) -> None:
    with pytest.raises(InputError, match=r"llama|hidden_size|model_type"):
        build_model(_asked(config=config))


def test_tokens_are_the_same_everywhere_and_can_be_learned() -> None:
    make = partial(tokens, seed=1, batch=3, length=4, vocabulary=VOCABULARY, device=torch.device("cpu"))
    inputs, targets = make(step=2)
    assert torch.equal(targets, (inputs + 1) % VOCABULARY)
    assert torch.equal(inputs, make(step=2)[0])
    assert not torch.equal(inputs, make(step=3)[0])
