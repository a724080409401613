"""The data of a run: token files, lines of JSON, or whatever an import path names; else sequences that count up.

    tokens.npy          one row of token numbers of any integer type
    tokens.bin          the same as 16-bit numbers without a header (32-bit, for vocabularies above 65,536)
    text.jsonl          a document a line: "tokens", or "text" for a tokenizer
    package.module:name an iterable of sequences of token numbers, or a function that returns one

Documents follow one another without a gap and are cut into samples of one length, each with the token behind it. Every
rank reads the same. Samples of token files are shuffled anew in every pass; those of documents come in their order.
"""

import importlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenflow.errors import InputError
from evenflow.language import _
from evenflow_torch.run.engine.seeds import seed_of

EVAL_BATCHES = 8
"""Batches that a model is evaluated on."""
_MOST_OF_16_BITS = 2**16


class TrainingData(Protocol):
    """Samples of a run in their order."""

    def samples(self, first: int, count: int) -> Tensor:
        """Return samples [count, length + 1] from number `first` on; numbers only grow from call to call."""


def open_data(
    names: Sequence[str], *, length: int, vocabulary: int, tokenizer: str | None, seed: int, option: str = "--data"
) -> TrainingData:
    """Return the data of `names`, all of one kind, as samples of `length` tokens and one behind.

    Raises:
        InputError: a name that means nothing, another kind beside it, or fewer tokens than a sample has.
    """
    kinds = {_kind(name, option) for name in names}
    if len(kinds) > 1:
        raise InputError(
            value=", ".join(sorted(kinds)),
            rule=_("must be of one kind: token files, JSONL files, or import paths"),
            place=option,
        )
    if kinds == {"tokens"}:
        rows = [_tokens_of_file(Path(name), vocabulary, option) for name in names]
        return _TokenFiles(rows, length=length, seed=seed, option=option)
    documents = _documents(names, tokenizer, option) if kinds == {"jsonl"} else _iterables(names, option)
    return _Documents(documents, length=length, vocabulary=vocabulary, option=option)


def _kind(name: str, option: str) -> str:
    suffix = Path(name).suffix
    if suffix in (".npy", ".bin"):
        kind = "tokens"
    elif suffix in (".jsonl", ".json"):
        kind = "jsonl"
    elif ":" in name:
        return "import"
    else:
        raise InputError(
            value=name,
            rule=_("must be a file .npy, .bin or .jsonl, or an import path such as package.module:name"),
            place=option,
        )
    if not Path(name).is_file():
        raise InputError(value=name, rule=_("must be a file that can be read"), place=option)
    return kind


class _TokenFiles:
    def __init__(self, rows: Sequence[NDArray[Any]], *, length: int, seed: int, option: str) -> None:
        self._rows, self._length, self._seed = rows, length, seed
        self._counts = [(len(row) - 1) // length for row in rows]
        self._total = sum(max(0, count) for count in self._counts)
        if self._total == 0:
            raise InputError(
                value=max(len(row) for row in rows),
                rule=_("must have at least {least} tokens in a file, for one sequence", least=length + 1),
                place=option,
                remedy=_("give more data, or a smaller --seq"),
            )
        self._pass, self._order = -1, torch.empty(0, dtype=torch.long)

    def samples(self, first: int, count: int) -> Tensor:
        return torch.stack([self._sample(number) for number in range(first, first + count)])

    def _sample(self, number: int) -> Tensor:
        which, place = divmod(number, self._total)
        if which != self._pass:
            generator = torch.Generator().manual_seed(seed_of(self._seed, "data", which))
            self._pass, self._order = which, torch.randperm(self._total, generator=generator)
        at = int(self._order[place])
        for row, samples in zip(self._rows, self._counts, strict=True):
            if at < samples:
                start = at * self._length
                return torch.from_numpy(row[start : start + self._length + 1].astype(np.int64))
            at -= max(0, samples)
        raise AssertionError


def _tokens_of_file(path: Path, vocabulary: int, option: str) -> NDArray[Any]:
    try:
        if path.suffix == ".npy":
            row = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            row = np.memmap(path, dtype=np.uint16 if vocabulary <= _MOST_OF_16_BITS else np.uint32, mode="r")
    except (OSError, ValueError) as error:
        raise InputError(
            value=str(path), rule=_("must be a file of tokens: {error}", error=error), place=option
        ) from None
    if row.ndim != 1 or row.dtype.kind not in "iu":
        raise InputError(
            value=f"{row.dtype}, {list(row.shape)}", rule=_("must be one row of integers"), place=f"{option}, {path}"
        )
    for start in range(0, len(row), 2**24):
        _check_tokens(int(row[start : start + 2**24].min()), int(row[start : start + 2**24].max()), vocabulary, option)
    return row


def _check_tokens(least: int, most: int, vocabulary: int, option: str) -> None:
    if least < 0 or most >= vocabulary:
        raise InputError(
            value=most if most >= vocabulary else least,
            rule=_("must be token numbers below the vocabulary size ({vocabulary})", vocabulary=vocabulary),
            place=option,
            remedy=_("use the tokenizer of the model, or --vocab"),
        )


class _Documents:
    """Samples of documents, read as they are needed; from the beginning again where they end."""

    def __init__(
        self, documents: Callable[[], Iterable[Sequence[int]]], *, length: int, vocabulary: int, option: str
    ) -> None:
        self._documents, self._length, self._vocabulary, self._option = documents, length, vocabulary, option
        self._next, self._stream = 0, self._samples()

    def samples(self, first: int, count: int) -> Tensor:
        skipped = first - self._next
        self._next = first + count
        return torch.stack(list(itertools.islice(self._stream, skipped, skipped + count)))

    def _samples(self) -> Iterator[Tensor]:
        left: list[int] = []
        while True:
            size = 0
            for document in self._documents():
                tokens = [int(token) for token in document]
                if tokens:
                    _check_tokens(min(tokens), max(tokens), self._vocabulary, self._option)
                size += len(tokens)
                left += tokens
                start = 0
                while start + self._length < len(left):
                    yield torch.tensor(left[start : start + self._length + 1])
                    start += self._length
                left = left[start:]
            if size == 0:
                raise InputError(rule=_("must have tokens"), place=self._option)


def _documents(names: Sequence[str], tokenizer: str | None, option: str) -> Callable[[], Iterator[Sequence[int]]]:
    encode = _encoder(tokenizer) if tokenizer is not None else None

    def read() -> Iterator[Sequence[int]]:
        for name in names:
            with Path(name).open(encoding="utf-8") as lines:
                for number, line in enumerate(lines, 1):
                    if line.strip():
                        yield _document(line, encode, f"{option}, {name}:{number}")

    return read


def _document(line: str, encode: Callable[[str], list[int]] | None, place: str) -> Sequence[int]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise InputError(value=line[:40], rule=_("must be JSON ({error})", error=error), place=place) from None
    tokens, text = (value.get("tokens"), value.get("text")) if isinstance(value, dict) else (None, None)
    if isinstance(tokens, list) and all(isinstance(token, int) for token in tokens):
        return tokens
    if not isinstance(text, str):
        raise InputError(rule=_('must have "text", or "tokens", a list of numbers'), place=place)
    if encode is None:
        raise InputError(
            rule=_("must come with a tokenizer for its text"), place=place, remedy=_("add --tokenizer FOLDER")
        )
    return encode(text)


def _encoder(folder: str) -> Callable[[str], list[int]]:
    """Return what makes tokens of a text, with one behind that ends a document where the tokenizer has one."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        reason = (str(error).strip().splitlines() or [""])[0]
        raise InputError(
            value=folder, rule=_("must be the folder of a tokenizer: {error}", error=reason), place="--tokenizer"
        ) from None
    ends = [] if tokenizer.eos_token_id is None else [int(tokenizer.eos_token_id)]

    def encode(text: str) -> list[int]:
        return [*tokenizer.encode(text, add_special_tokens=False), *ends]

    return encode


def _iterables(names: Sequence[str], option: str) -> Callable[[], Iterable[Sequence[int]]]:
    found: list[Any] = []
    for name in names:
        module, _colon, attribute = name.partition(":")
        try:
            found.append(getattr(importlib.import_module(module), attribute))
        except (ImportError, AttributeError) as error:
            raise InputError(value=name, rule=_("must be importable: {error}", error=error), place=option) from None
        if not callable(found[-1]) and not isinstance(found[-1], Iterable):
            raise InputError(
                value=type(found[-1]).__name__,
                rule=_("must be an iterable, or a function that returns one"),
                place=option,
            )
    return lambda: itertools.chain.from_iterable(one() if callable(one) else one for one in found)
