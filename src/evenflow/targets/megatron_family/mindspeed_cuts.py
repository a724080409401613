"""The flags of MindSpeed that cut the network, from and to tables of layers ``[chunk][rank]``; verl takes one of them.

--pipeline-num-transformer-layers [[3,4],[4,4]*2,[4,1]]     chunks of each rank; *n repeats a rank
--num-layer-list 4,4,5,3                                    ranks with one chunk, in MindSpeed-LLM
--noop-layers 0,47                                          layers of an even cut that do nothing
"""

import re
from collections.abc import Collection
from dataclasses import replace
from itertools import count, groupby

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model.plan import Cells, cells
from evenflow.ranges import LAYERS, RANKS
from evenflow.targets.megatron_family.arguments import Arguments, flag_name, is_printed
from evenflow.targets.megatron_family.baseline import LAYOUT, baseline, is_run
from evenflow.targets.megatron_family.even_cuts import CHUNK_COUNT, FIRST, LAST, STAGE_LAYERS, STAGES
from evenflow.targets.megatron_family.forks import file_above
from evenflow.targets.megatron_family.layout import format_layout
from evenflow.targets.megatron_family.settings import FB_OVERLAP
from evenflow.targets.target import Baseline, GivenSizes

MATRIX, LIST, NOOP = "pipeline_num_transformer_layers", "num_layer_list", "noop_layers"
METHOD = "schedules_method"
OWN = (MATRIX, LIST, NOOP, METHOD)
_OWN_FLAG = re.compile("|".join(map(flag_name, (*OWN, FB_OVERLAP))) + "|mindspeed", re.IGNORECASE)
_ON_ASCEND = re.compile(
    r"ascend-toolkit|\bASCEND_\w+=|\bHCCL_\w+=|--use-fused-(?:rmsnorm|swiglu|rotary-pos-emb)\b|--use-mc2\b|modellink",
    re.IGNORECASE,
)
"""What only scripts for Ascend have, those of ModelLink too, which MindSpeed-LLM was before."""
_NEW_PACKAGE, _OLD_PACKAGE = "mindspeed_llm/__init__.py", "modellink/__init__.py"
"""In a checkout of MindSpeed-LLM, and in one of ModelLink."""
_NUMBERS = r"[0-9]{1,6}(?:,[0-9]{1,6})*"
_RANK = rf"\[({_NUMBERS})\](?:\*([0-9]{{1,6}}))?"
_WHOLE_MATRIX = re.compile(rf"\[{_RANK}(?:,{_RANK})*\]")


def is_mindspeed_script(text: str, file: str) -> bool:
    """Return whether a script for Megatron-LM is for Ascend: by its own flags, its environment or its checkout."""
    if not is_run(text, file) or is_printed(text):
        return False
    return (
        bool(_OWN_FLAG.search(text) or _ON_ASCEND.search(text))
        or file_above(file, (_NEW_PACKAGE, _OLD_PACKAGE)) is not None
    )


def is_before_mindspeed(text: str, file: str) -> bool:
    """Return whether a script for Ascend has no mark of MindSpeed: then a list cuts it, as in ModelLink."""
    if "--pipeline-model-parallel-layout" in text:
        return False
    return "mindspeed" not in text.lower() and file_above(file, (_NEW_PACKAGE,)) is None


def matrix_text(layers: Cells) -> str:
    """Return the matrix of a table; equal ranks one after the other are counted.

    >>> matrix_text(((3, 4, 4, 4), (4, 4, 4, 1)))
    '[[3,4],[4,4]*2,[4,1]]'
    """
    ranks = zip(*layers, strict=True)
    runs = [(f"[{','.join(map(str, chunks))}]", len(list(equal))) for chunks, equal in groupby(ranks)]
    return "[" + ",".join(text if times == 1 else f"{text}*{times}" for text, times in runs) + "]"


def parse_matrix(text: str, *, place: str) -> Cells:
    """Return the table of a matrix; raises InputError for another text.

    Quotation marks in it are skipped, as by MindSpeed: in a variable of a script they do not quote.
    [MindSpeed, `parse_string_to_array`]
    """
    plain = re.sub(r"[\s'\"]", "", text)
    found = re.findall(_RANK, plain) if _WHOLE_MATRIX.fullmatch(plain) else []
    if not found or sum(int(times or 1) for _numbers, times in found) not in RANKS:
        rule = _("must have a list for each rank with a number for each chunk, such as [[3,4],[4,4]*2,[4,1]]")
        raise InputError(value=text, rule=rule, place=place)
    ranks = [list(map(int, numbers.split(","))) for numbers, times in found for _ in range(int(times or 1))]
    if len({len(chunks) for chunks in ranks}) > 1:
        raise InputError(value=text, rule=_("must have equally many chunks in every rank"), place=place)
    return cells(list(zip(*ranks, strict=True)))


def parse_numbers(text: str, *, place: str) -> tuple[int, ...]:
    """Return the numbers of a list; raises InputError for another text."""
    plain = re.sub(r"\s", "", text)
    numbers = tuple(map(int, plain.split(","))) if re.fullmatch(_NUMBERS, plain) else ()
    if not numbers or max(numbers) > LAYERS.most:
        raise InputError(value=text, rule=_("must be whole numbers with commas between them"), place=place)
    return numbers


def real_layers(layers: Cells, noop: Collection[int]) -> tuple[tuple[tuple[bool, ...], ...], ...]:
    """Return whether each layer of each cell ``[chunk][rank]`` does something, given the indices of those that do not.

    >>> real_layers(((2, 2),), (0, 3))
    (((False, True), (True, False)),)
    """
    index = count()
    return tuple(tuple(tuple(next(index) not in noop for _ in range(each)) for each in row) for row in layers)


def with_layers(arguments: Arguments, layers: Cells, place: str, sizes: GivenSizes) -> Baseline:
    """Return the plan of arguments with `layers`, which stand at `place`, in place of what cuts the network."""
    ranks = arguments.num_ranks(sizes.num_ranks)
    if len(layers[0]) != ranks:
        raise InputError(value=len(layers[0]), rule=_("must be for the {ranks} ranks", ranks=ranks), place=place)
    for key in (STAGES, CHUNK_COUNT):
        if arguments.values.get(key, len(layers)) != len(layers):
            raise arguments.error(key, _("must be {chunks}, as in the cut", chunks=len(layers)))
    replaced = (STAGE_LAYERS, STAGES, CHUNK_COUNT, FIRST, LAST)
    kept = {key: value for key, value in arguments.values.items() if key not in replaced}
    return baseline(replace(arguments, values={**kept, LAYOUT: format_layout(layers)}), sizes)
