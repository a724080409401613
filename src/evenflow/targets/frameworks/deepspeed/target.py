"""DeepSpeed: a plan as a Python module for the training script and a fragment of the DeepSpeed configuration."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from evenflow.adapters import deepspeed as adapter
from evenflow.adapters.stage_counts import stage_counts
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import FULL, Abilities, Empty, Plan, Recomputation, Scope
from evenflow.predict.software import usual_software
from evenflow.predict.training import Sharding
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.degree_rules import check_no_capacity, experts_among_data
from evenflow.targets.frameworks.deepspeed.logs import DEEPSPEED
from evenflow.targets.frameworks.deepspeed.reader import is_deepspeed, read_plan, stated_in_configuration
from evenflow.targets.target import Piece, Target, Written
from evenflow.tune.axes import Axis
from evenflow.tune.rules import DegreeRule, DegreeRules

TITLE = "DeepSpeed"


def abilities(version: str) -> Abilities:
    """Return what `PipelineModule` runs.

    Its train schedule is 1F1B with one chunk for each rank. A stage without parameters has no optimizer, so only stages
    that get the head or the tail of the model can do without layers.
    """
    return Abilities(
        schedules=("1f1b",),
        recomputation=(Recomputation(scope=Scope.LAYERS, kinds=(FULL,)),),
        most_chunks=1,
        empty=Empty.ENDS,
    )


def write(plan: Plan, version: str) -> Written:
    """Return a module that puts the plan into a list of layers, its use, and what the configuration needs."""
    layers, recomputed = stage_counts(plan, title=TITLE)
    module = (
        "from typing import Any\n\n"
        f"LAYERS = {layers}\n"
        f"RECOMPUTED = {recomputed}\n"
        f'PIPELINE = {{"num_stages": {plan.num_ranks}, "partition_method": "{adapter.PARTITION_METHOD}"}}\n\n\n'
        f"{adapter.source()}"
    )
    use = (
        "from deepspeed.pipe import PipelineModule\n"
        "from evenflow_stages import LAYERS, PIPELINE, RECOMPUTED, staged\n\n"
        "# head, tail: the entries of your list before the first body layer and after the last one\n"
        "layers = staged(layers, LAYERS, RECOMPUTED, head=1, tail=1)\n"
        "module = PipelineModule(layers, **PIPELINE, loss_fn=loss_fn)\n"
    )
    configuration: dict[str, object] = {
        "gradient_accumulation_steps": plan.num_microbatches,
        "pipeline": {"activation_checkpoint_interval": 0},
    }
    return Written(
        pieces=(
            Piece(
                title=_("a module beside your training script"),
                syntax="python",
                text=module,
                file_name="evenflow_stages.py",
            ),
            Piece(title=_("in your training script, where it makes the PipelineModule"), syntax="python", text=use),
            _configuration(configuration),
        ),
        notes=(
            _("set head and tail to the entries of your list before and after the body layers"),
            _("train_batch_size, if it is given, must be microbatches x train_micro_batch_size_per_gpu x data ranks"),
        ),
    )


def write_degrees(plan: Plan, planned: PlannedDegrees, version: str) -> Written:
    """Return the same with ZeRO, the batch and the axes of the devices; raises InputError for what DeepSpeed refuses.

    Without a pipeline layers are not cut, and tensor parallelism is DeepSpeed's own.
    """
    check_no_capacity(planned, title=TITLE)
    degrees = planned.degrees
    configuration: dict[str, object] = {
        "train_batch_size": planned.global_batch,
        "train_micro_batch_size_per_gpu": planned.microbatch,
        "gradient_accumulation_steps": planned.num_microbatches,
        "zero_optimization": {"stage": int(degrees.sharding)},
    }
    notes = [_("start it on {devices} devices, node after node", devices=degrees.devices)]
    if degrees.expert > 1:
        notes.append(_("give the MoE layers ep_size={expert}", expert=degrees.expert))
    if plan.num_ranks == 1:
        if degrees.tensor > 1:
            configuration["tensor_parallel"] = {"autotp_size": degrees.tensor}
        if degrees.context > 1:
            configuration["sequence_parallel_size"] = degrees.context
        if plan.used_kinds:
            notes.append(_("checkpoint the layers in the model"))
        return Written(pieces=(_configuration(configuration),), notes=tuple(notes))
    if degrees.sharding not in (Sharding.NOTHING, Sharding.OPTIMIZER) or degrees.context > 1:
        rule = _("must be ZeRO-1 or data parallelism, with whole sequences, beside a pipeline of {title}", title=TITLE)
        raise InputError(value=f"ZeRO-{degrees.sharding}, context {degrees.context}", rule=rule, place=_("the plan"))
    configuration["pipeline"] = {"activation_checkpoint_interval": 0}
    module, use, _alone = write(plan, version).pieces
    if degrees.tensor > 1:
        shape = f"num_pp={plan.num_ranks}, num_mp={degrees.tensor}, num_dp={degrees.data}"
        text = use.text.replace(
            "import PipelineModule\n",
            "import PipelineModule\nfrom deepspeed.runtime.pipe.topology import PipeModelDataParallelTopology\n",
        ).replace(
            "module = PipelineModule(layers, **PIPELINE,",
            f"topology = PipeModelDataParallelTopology({shape})\n"
            "module = PipelineModule(layers, **PIPELINE, topology=topology,",
        )
        use = replace(use, text=text)
        notes.append(_("the layers split themselves over the axis model of the topology"))
    return Written(pieces=(module, use, _configuration(configuration)), notes=(*write(plan, version).notes[:1], *notes))


def _configuration(values: Mapping[str, object]) -> Piece:
    text = json.dumps(values, indent=2)
    return Piece(title=_("in the DeepSpeed configuration"), syntax="json", text=f"{text}\n")


def degree_rules(version: str) -> DegreeRules:
    """Return what DeepSpeed can split. [DeepSpeed: `PipelineEngine`, `DeepSpeedEngine`]

    Sequences are exchanged by an all-to-all (Ulysses), which its pipeline has no ranks for; its experts are distributed
    over data ranks and do not go with ZeRO-3.
    """
    return DegreeRules(
        shardings=tuple(Sharding),
        pipeline_shardings=(Sharding.NOTHING, Sharding.OPTIMIZER),
        context_exchange="all-to-all",
        sequence_parallel=False,
        rules=(
            DegreeRule(
                axis=Axis.CONTEXT,
                text=_("must be 1 beside a pipeline"),
                holds=lambda training: training.degrees.context == 1 or training.degrees.pipeline == 1,
            ),
            experts_among_data(),
            DegreeRule(
                axis=Axis.ZERO,
                text=_("must be at most 2 for a model with experts"),
                holds=lambda training: (
                    training.model.experts is None or training.degrees.sharding is not Sharding.PARAMETERS
                ),
            ),
        ),
    )


TARGET = Target(
    name="deepspeed",
    title=TITLE,
    versions=("0.19.8",),
    checked_with="deepspeed 0.19.8",
    page="deepspeed",
    abilities=abilities,
    software=partial(usual_software, sends_whole=True),
    write=write,
    write_degrees=write_degrees,
    degree_rules=degree_rules,
    read=read_plan,
    read_degrees=stated_in_configuration,
    recognise=is_deepspeed,
    logs=(DEEPSPEED,),
)
