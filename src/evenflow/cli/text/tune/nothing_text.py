"""Why there is no ranking of degrees, and what would give one, as text."""

from collections.abc import Iterator

from evenflow.cli.text.display_width import text_width, wrapped
from evenflow.cli.text.tables import round_up_megabytes
from evenflow.cli.text.tune.explain_text import gigabytes
from evenflow.cli.text.tune.proof_text import option_word
from evenflow.language import _
from evenflow.tune.answers.infeasible import Needed
from evenflow.tune.tuned import Tuned


def needed_text(tuned: Tuned, needed: Needed) -> str:
    """Return why there is no ranking: the rule that excludes most, and the memory and devices that would suffice."""
    return "\n".join(line for sentence in _sentences(tuned, needed) for line in wrapped(sentence, text_width()))


def _sentences(tuned: Tuned, needed: Needed) -> Iterator[str]:
    question = tuned.question
    if not tuned.num_legal and tuned.excluded:
        axis = max(tuned.excluded, key=lambda name: tuned.excluded[name])
        count, every = tuned.excluded[axis], sum(tuned.excluded.values())
        values = {"axis": option_word(axis), "all": every, "reason": tuned.reasons[axis].message}
        if count == every:
            yield _("the rules of {axis} exclude all {all:,} combinations; for example {reason}", **values)
        else:
            yield _(
                "the rules of {axis} exclude most, {count:,} of {all:,} combinations; for example {reason}",
                count=count,
                **values,
            )
    elif not tuned.num_legal:
        yield _("what is decided and the largest values leave no combination of the devices")
    if needed.memory_bytes is not None:
        yield _(
            "on as many devices it would fit with --memory {size}MB ({size_gb} GB)",
            size=round_up_megabytes(needed.memory_bytes),
            size_gb=gigabytes(needed.memory_bytes),
        )
    if needed.bytes_at_least > question.memory_limit_bytes:
        yield _("nothing fits into less than {least} GB on each of them", least=gigabytes(needed.bytes_at_least))
    if needed.devices is not None:
        yield _("with as much memory it would fit on --gpus {devices}", devices=needed.devices)
    if needed.memory_bytes is None and needed.devices is None and not needed.had_time:
        yield _("what would do was not found in the time given")
    elif needed.memory_bytes is None and needed.devices is None:
        yield _("neither more memory nor more devices were found that would do: change what is decided")
