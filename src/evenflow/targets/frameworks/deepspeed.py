"""DeepSpeed: a plan as a Python module for the training script and a fragment of the DeepSpeed configuration."""

import json

from evenflow.adapters import deepspeed as adapter
from evenflow.adapters.stage_counts import stage_counts
from evenflow.language import _
from evenflow.model import FULL, Abilities, Empty, Plan, Recomputation, Scope
from evenflow.predict.training import Sharding
from evenflow.targets.degree_rules import experts_among_data
from evenflow.targets.entry_lists.deepspeed_reader import is_deepspeed, read_plan
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
    configuration = json.dumps(
        {"gradient_accumulation_steps": plan.num_microbatches, "pipeline": {"activation_checkpoint_interval": 0}},
        indent=2,
    )
    return Written(
        pieces=(
            Piece(
                title=_("a module beside your training script"),
                syntax="python",
                text=module,
                file_name="evenflow_stages.py",
            ),
            Piece(title=_("in your training script, where it makes the PipelineModule"), syntax="python", text=use),
            Piece(title=_("in the DeepSpeed configuration"), syntax="json", text=f"{configuration}\n"),
        ),
        notes=(
            _("set head and tail to the entries of your list before and after the body layers"),
            _("train_batch_size, if it is given, must be microbatches x train_micro_batch_size_per_gpu x data ranks"),
        ),
    )


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
    write=write,
    degree_rules=degree_rules,
    read=read_plan,
    recognise=is_deepspeed,
)
