"""MindSpeed: Megatron-LM on Ascend, with flags of its own for the cut before it took Megatron's layout (26.1).

``--pipeline-num-transformer-layers`` has a list for each rank with a number for each of its chunks; MindSpeed-LLM also
has ``--num-layer-list``, a number for each rank. [MindSpeed, `UnalignedPipelineFeature`]
"""

from dataclasses import replace

from evenflow.errors import InputError
from evenflow.fields import check_one_of
from evenflow.language import _
from evenflow.model import FULL, SELECT, Abilities, Plan, ScheduleLimits, SizeRule
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.frameworks.mindspeed.reader import (
    BY_LAYOUT,
    BY_LIST,
    BY_MATRIX,
    read_script,
    real_arguments,
    told_version,
)
from evenflow.targets.further_tokens import without_mtp
from evenflow.targets.megatron_family.arguments import flag_name, is_printed
from evenflow.targets.megatron_family.degrees.degree_flags import degree_flags, degree_notes
from evenflow.targets.megatron_family.degrees.degree_rules import megatron_rules
from evenflow.targets.megatron_family.degrees.degree_settings import check_pairs, shares_optimizer
from evenflow.targets.megatron_family.degrees.stated import stated_in_run
from evenflow.targets.megatron_family.edit import apply_flags
from evenflow.targets.megatron_family.flags import (
    CUT_FLAGS,
    DELAY_FLAG,
    LAYOUT_FLAG,
    PAIR_FLAG,
    PAIRED,
    STOCK_WAYS,
    even_flags,
    flags_piece,
    megatron_abilities,
    plan_flags,
    plan_notes,
    recompute_flags,
    without_layout_abilities,
)
from evenflow.targets.megatron_family.mindspeed_cuts import is_mindspeed_script, matrix_text
from evenflow.targets.megatron_family.settings import FB_OVERLAP, FROZEN_PARTS, settings_notes
from evenflow.targets.target import Target, Written

_MATRIX_FLAG, _LIST_FLAG = "--pipeline-num-transformer-layers", "--num-layer-list"
_OWN_CUTS = (_MATRIX_FLAG, "--noop-layers", _LIST_FLAG)
_PAIR_FLAG = flag_name(FB_OVERLAP)
_IN_PAIRS = ScheduleLimits(kinds=(FULL, SELECT), most_mtp=1, every_cell=True)
"""What MindSpeed keeps to beside it: full recomputation is of single layers. [`transformer_block_forward`]"""
_ENOUGH = SizeRule(
    text=_("must be at least twice the number of ranks where forwards run beside backwards"),
    holds=lambda sizes, schedule: schedule != PAIRED[1] or sizes.num_microbatches >= 2 * sizes.num_ranks,
)
"""[MindSpeed, `MoEFwdBwdOverlapFeature`]"""
_CONTEXT_FLAG = "--context-parallel-algo"
_CONTEXT_WAYS = {"ring": "megatron_cp_algo", "all-to-all": "ulysses_cp_algo"}
"""MindSpeed's names of how context ranks exchange. [MindSpeed, `ContextParallelFeature`]"""


def _abilities(version: str) -> Abilities:
    """Return what a version can run: a list cuts one chunk for each rank freely, more chunks are equal; the last one
    runs forwards beside backwards.
    """
    if version == BY_LIST:
        return replace(without_layout_abilities(), own_cut_from=2)
    abilities = megatron_abilities(STOCK_WAYS, in_pairs=version == BY_LAYOUT)
    return replace(abilities, limits=dict.fromkeys(PAIRED, _IN_PAIRS), sizes=(*abilities.sizes, _ENOUGH))


def _write(plan: Plan, version: str) -> Written:
    piece = flags_piece("PIPELINE_ARGS", {**_plan_flags(plan, version), **_recompute_flags(plan, version)})
    return Written(pieces=(piece,), notes=_notes(plan, version))


def _write_degrees(plan: Plan, planned: PlannedDegrees, version: str) -> Written:
    shares_optimizer(planned, TARGET.title)
    check_pairs(plan, planned)
    degrees = planned.degrees
    of_plan = _plan_flags(plan, version)
    if plan.num_ranks == 1:
        of_plan = {flag: values for flag, values in of_plan.items() if flag not in (LAYOUT_FLAG, _MATRIX_FLAG)}
    flags = {**of_plan, **degree_flags(planned), **_recompute_flags(plan, version)}
    if degrees.context > 1:
        flags.pop("--cp-comm-type", None)
        flags[_CONTEXT_FLAG] = (_context_words(degrees.context_exchange),)
    notes = _notes(plan, version) if plan.num_ranks > 1 else ()
    return Written(pieces=(flags_piece("PARALLEL_ARGS", flags),), notes=(*notes, *degree_notes(planned)))


def _context_words(exchange: str) -> str:
    """Return MindSpeed's name of a way in which context ranks exchange; raises InputError for one that it lacks."""
    check_one_of(exchange, _CONTEXT_WAYS, place=_("the plan"))
    return _CONTEXT_WAYS[exchange]


def _recompute_flags(plan: Plan, version: str) -> dict[str, tuple[str, ...]]:
    return recompute_flags(plan, has_modules=version != BY_LIST)


def _plan_flags(plan: Plan, version: str) -> dict[str, tuple[str, ...]]:
    if version == BY_LIST:
        listed = {_LIST_FLAG: (",".join(map(str, plan.layers[0])),)} if len(set(plan.layers[0])) > 1 else {}
        return {**even_flags(plan), **listed}
    flags = {flag: values for flag, values in plan_flags(plan).items() if flag not in (PAIR_FLAG, DELAY_FLAG)}
    if plan.schedule in PAIRED:
        flags[_PAIR_FLAG] = ()
    if version == BY_MATRIX:
        counted = without_mtp(plan)
        _check_divides(counted)
        del flags["--pipeline-model-parallel-layout"]
        flags[_MATRIX_FLAG] = (matrix_text(counted.layers),)
        if plan.num_chunks > 1:
            flags["--num-virtual-stages-per-pipeline-rank"] = (str(plan.num_chunks),)
    return flags


def _notes(plan: Plan, version: str) -> tuple[str, ...]:
    flags = _plan_flags(plan, version)
    excluded = ", ".join(flag for flag in (*CUT_FLAGS, *_OWN_CUTS) if flag not in flags)
    if version == BY_LIST:
        return (_("leave out {flags}", flags=excluded), *settings_notes(plan, has_layout=False))
    if version == BY_LAYOUT:
        notes = [_("leave out {flags}: the layout replaces them", flags=excluded)]
        notes += plan_notes(plan, of_pairs=_pair_notes(plan))
    else:
        replaced = _("leave out {flags}: {flag} replaces them", flags=excluded, flag=_MATRIX_FLAG)
        notes = [replaced, *settings_notes(plan, has_layout=False)]
    if plan.num_chunks == 1 and not plan.mtp_layers:
        layers = ",".join(map(str, plan.layers[0]))
        notes.append(_("MindSpeed-LLM also takes the cut as --num-layer-list {layers}", layers=layers))
    return tuple(notes)


def _pair_notes(plan: Plan) -> tuple[str, ...]:
    """Return what forwards beside backwards need that a plan does not decide."""
    if plan.schedule not in PAIRED:
        return ()
    return (
        _(
            "{flag} needs expert-parallel devices, --moe-grouped-gemm, the token dispatcher alltoall,"
            " --expert-tensor-parallel-size 1, and no --overlap-grad-reduce",
            flag=_PAIR_FLAG,
        ),
    )


def _check_divides(plan: Plan) -> None:
    """Raise InputError where Megatron-LM below MindSpeed, which does not know of the matrix, refuses the layers."""
    if plan.num_chunks == 1 and plan.num_layers % plan.num_ranks:
        raise InputError(
            value=plan.num_layers,
            rule=_(
                "must be a multiple of the {ranks} ranks for MindSpeed {version}",
                ranks=plan.num_ranks,
                version=BY_MATRIX,
            ),
            place="layers",
            remedy=_("write for MindSpeed {version}, which takes any number", version=BY_LAYOUT),
        )


def _apply(text: str, file: str, plan: Plan) -> str:
    """Return a script with the cut as a layout, or as a matrix where that is how it is cut."""
    version = told_version(text, file) or BY_LAYOUT
    if is_printed(text):
        raise InputError(rule=_("must be a script: this is what a run printed"), place=file)
    flags = {**_plan_flags(plan, version), **_recompute_flags(plan, version)}
    arguments, has_noop_layers = real_arguments(text, file)
    return apply_flags(
        text,
        file,
        plan,
        flags,
        arguments=arguments,
        decided=(*_OWN_CUTS, _PAIR_FLAG, "--enable-recompute-layers-per-pp-rank"),
        sets_layers=has_noop_layers,
    )


TARGET = Target(
    name="mindspeed",
    title="MindSpeed",
    versions=(BY_LIST, BY_MATRIX, BY_LAYOUT),
    checked_with="",
    page="mindspeed",
    abilities=_abilities,
    frozen_parts=FROZEN_PARTS,
    write=_write,
    write_degrees=_write_degrees,
    degree_rules=lambda version: megatron_rules(has_fsdp=False),
    read=read_script,
    read_degrees=stated_in_run,
    recognise=is_mindspeed_script,
    apply=_apply,
    told_version=told_version,
)
