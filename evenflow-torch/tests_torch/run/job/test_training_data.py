"""Samples of data: every token is read in its turn, and what was read before a checkpoint is not read again."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow_torch.run.job.training_data import TrainingData, open_data
from tests.thoroughness import examples

DOCUMENTS = [[1, 2, 3], [], [4, 5, 6, 7, 8, 9], [10]]


def opened(*names: object, length: int = 3, seed: int = 0, tokenizer: str | None = None) -> TrainingData:
    return open_data([str(name) for name in names], length=length, vocabulary=300, tokenizer=tokenizer, seed=seed)


def test_samples_of_token_files_are_those_of_a_pass_in_another_order(tmp_path: Path) -> None:
    files = tmp_path / "a.npy", tmp_path / "b.bin"
    np.save(files[0], np.arange(0, 10))
    np.arange(100, 107, dtype=np.uint16).tofile(files[1])
    data = opened(*files)
    first, second = data.samples(0, 5), data.samples(5, 5)
    expected = {(0, 1, 2, 3), (3, 4, 5, 6), (6, 7, 8, 9), (100, 101, 102, 103), (103, 104, 105, 106)}
    assert {tuple(row) for row in first.tolist()} == {tuple(row) for row in second.tolist()} == expected
    assert torch.equal(opened(*files).samples(5, 5), second), "also without the first"
    assert any(not torch.equal(opened(*files, seed=seed).samples(0, 5), first) for seed in (1, 2, 3))


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(1, 5), st.integers(0, 6), st.integers(1, 4))
def test_documents_follow_one_another_without_a_gap(length: int, first: int, count: int) -> None:
    data = opened(f"{__name__}:DOCUMENTS", length=length)
    stream = [token for document in DOCUMENTS for token in document] * (2 + length * (first + count))
    expected = [stream[at * length : at * length + length + 1] for at in range(first, first + count)]
    assert data.samples(first, count).tolist() == expected


def test_lines_of_json_are_tokens_or_texts_for_a_tokenizer(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    from transformers import PreTrainedTokenizerFast

    words = {"one": 1, "two": 2, "[UNK]": 3, "</s>": 4}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>").save_pretrained(tmp_path / "tokenizer")
    lines = [{"text": "one two"}, {"tokens": [9, 8]}, {"text": "three"}]
    (tmp_path / "text.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    data = opened(tmp_path / "text.jsonl", length=6, tokenizer=str(tmp_path / "tokenizer"))
    assert data.samples(0, 1).tolist() == [[1, 2, 4, 9, 8, 3, 4]]
