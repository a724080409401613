"""Dry runs as text: the SAPP balancer's block, and its init file, new or edited. [SAPP guide, Step 2 and 3]"""

from collections.abc import Iterable, Sequence

from evenflow.errors import InputError
from evenflow.export.mindformers import mindformers_lists
from evenflow.export.train_yaml import apply_to_training_yaml
from evenflow.language import _
from evenflow.model import Plan
from evenflow.profiles.init.init_file import MEMORY, is_init_file, parse_init_file
from evenflow.profiles.init.init_planning import PIPELINE
from evenflow.profiles.yaml_file import load_yaml
from evenflow.units import megabytes

_INIT_FILE = """\
# What was dry-run; written by evenflow guide.
pipeline_config:
  pipeline_num: {pipeline_num}
  num_layer: {num_layer}
  offset: {offset}

recompute_config:
  recompute: {recompute}
  select_recompute: {select_recompute}
  select_comm_recompute: {select_comm_recompute}

# For a plan, the times of head, body and tail too: from timelines,
# profiling_config:
#   micro_batch_num: 8
#   folder_path: "/timeline/path"
# or in milliseconds, for one layer and one microbatch:
# time_config:
#   head: 1.21
#   body: 21.99
#   tail: 17.9

# The peaks (memory_usage) come below, as `evenflow collect-peaks` prints them.
"""


def format_dry_runs(rounds: Sequence[Plan]) -> tuple[str, ...]:
    """Return what the balancer prints: a line with the number of rounds, then a block for each.

    >>> plan = Plan(schedule="1f1b", num_microbatches=2, layers=((1, 2),), recompute={"full": ((0, 1),)})
    >>> for text in format_dry_runs([plan]):
    ...     print(text)
    Please dryrun following config, 1 round(s) is needed
    for round 1, please dryrun config:
            offset: [0, 1]
            recompute: [0, 1]
            select_recompute: [0, 1]
            select_comm_recompute: [0, 1]

    Raises:
        InputError: a plan that MindFormers cannot express.
    """
    texts = [f"Please dryrun following config, {len(rounds)} round(s) is needed"]
    for number, plan in enumerate(rounds, start=1):
        lines = [f"for round {number}, please dryrun config:"]
        lines += [f"        {name}: {list(table[0])}" for name, table in mindformers_lists(plan).items()]
        texts.append("\n".join(lines))
    return tuple(texts)


def format_init_start(rounds: Sequence[Plan]) -> str:
    """Return an init file without times and memory; with several rounds its lists have one list for each.

    Raises:
        InputError: a plan that MindFormers cannot express.
    """
    return _INIT_FILE.format(**{key.rpartition(".")[2]: value for key, value in init_values(rounds).items()})


def init_values(rounds: Sequence[Plan]) -> dict[str, object]:
    """Return what an init file says of its dry runs, by dotted key, such as ``pipeline_config.offset``.

    Raises:
        InputError: a plan that MindFormers cannot express.
    """
    tables = [mindformers_lists(plan) for plan in rounds]
    lists = {name: [list(table[name][0]) for table in tables] for name in tables[0]}
    values = {name: rows if len(rows) > 1 else rows[0] for name, rows in lists.items()}
    return {
        "pipeline_config.pipeline_num": rounds[0].num_ranks,
        "pipeline_config.num_layer": rounds[0].num_layers,
        "pipeline_config.offset": values.pop("offset"),
        **{f"recompute_config.{name}": value for name, value in values.items()},
    }


def format_memory_usage(rounds: Sequence[Sequence[int]]) -> str:
    """Return the ``memory_usage`` block of an init file, in MB, from the peak bytes by stage of one or several rounds.

    Head and tail are those of the first round; with several rounds the lists become lists of lists. [SAPP guide]

    Raises:
        InputError: fewer than three stages, or rounds with different numbers of them.
    """
    stages = len(rounds[0])
    if stages < 3:
        raise InputError(
            value=stages,
            rule=_("must have peaks of three stages or more: the first, the last, and one between"),
            place=_("round 1"),
            remedy=_("do the dry runs that evenflow guide gives"),
        )
    for number, peaks in enumerate(rounds, start=1):
        if len(peaks) != stages:
            rule = _("must have the {stages} stages of the first round", stages=stages)
            raise InputError(value=len(peaks), rule=rule, place=_("round {number}", number=number))
    in_mb = [[round(megabytes(peak)) for peak in peaks] for peaks in rounds]
    bodies = [_flow(peaks[1:-1]) for peaks in in_mb]
    ids = [_flow(range(1, stages - 1))] * len(rounds)
    several = len(rounds) > 1
    return (
        "memory_usage:\n"
        f"  head_memory: {in_mb[0][0]}\n"
        f"  tail_memory: {in_mb[0][-1]}\n"
        "  body_memories:\n"
        f"    stage_id: {_flow(ids) if several else ids[0]}\n"
        f"    memories: {_flow(bodies) if several else bodies[0]}\n"
    )


def _flow(values: Iterable[object]) -> str:
    return f"[{','.join(map(str, values))}]"


def with_dry_runs(text: str, rounds: Sequence[Plan], *, file: str) -> str:
    """Return the init file `text` with the dry runs `rounds`; a text without any value is continued.

    A file that has the peaks of these very rounds is returned as it is.

    Raises:
        InputError: a text that is no init file, or one that has the peaks of other dry runs, which would be taken for
            peaks of these.
    """
    if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        return text + format_init_start(rounds)
    top = load_yaml(text, file=file)
    if not is_init_file(top):
        raise InputError(
            value=", ".join(map(str, list(top.values)[:4])),
            rule=_("must be an init file, with {section} and the sections beside it, or a new file", section=PIPELINE),
            place=file,
            remedy=_("choose another name, or add --overwrite"),
        )
    if MEMORY in top:
        if init_values(parse_init_file(text, place=file).dry_runs.rounds) == init_values(rounds):
            return text
        raise InputError(
            rule=_("must not be the peaks of other dry runs, which would be taken for peaks of these"),
            place=top.place(MEMORY),
            remedy=_("choose another name, or add --overwrite, which removes them"),
        )
    return apply_to_training_yaml(text, file=file, values=init_values(rounds))
