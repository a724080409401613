"""``--refine auto``: what shardings of every operator could gain over the degrees of the first row."""

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from evenflow.cli.shared.model_config import ModelConfig
from evenflow.cli.shared.progress import shown_step
from evenflow.cli.verbs.tune.refiner import REFINE
from evenflow.cli.verbs.tune.tune_options import TuneOptions
from evenflow.cluster import Cluster
from evenflow.cluster.topology import usual_links
from evenflow.errors import InputError
from evenflow.interruption import abandonable, was_interrupted
from evenflow.language import _
from evenflow.predict.expert_work import expert_tensor
from evenflow.predict.training import Training
from evenflow.solve.time_left import TimeLeft
from evenflow.tune.answers.two_level import Refiner, TwoLevel, TwoLevelStep
from evenflow.tune.question import TuningQuestion
from evenflow.tune.tuned import Tuned
from evenflow_torch.verbs.torch_extra import torch_extra

if TYPE_CHECKING:
    from evenflow_torch.auto.fixing.fixed import Fixed
    from evenflow_torch.auto.planner import AutoPlan

_PRECISIONS = ("bf16", "fp16", "fp32")
_OVERLAPS = ("tensor", "gradients", "parameters")
_DEGREES_SHARE, _FREE_SHARE = 0.3, 0.7
"""Shares of the time that is left for the degrees of the first row, then for free shardings."""


def check_refine(question: TuningQuestion, model: str | None) -> None:
    """Refuse what two-level plans have no answer to; raises InputError."""
    node = question.topology.domain_devices
    for is_wrong, rule in (
        (model in (None, "-"), _("must come with --model and a file: operators are read from its configuration")),
        (question.precision not in _PRECISIONS, _("must come with --precision bf16, fp16 or fp32")),
        (question.recompute is not None, _("must come without --recompute: `evenflow auto` has all kinds")),
        (question.devices > node and question.devices % node > 0, _("must come with whole nodes in --gpus")),
    ):
        if is_wrong:
            raise InputError(value="auto", rule=rule, place=REFINE)


def free_command(tune_options: TuneOptions, question: TuningQuestion) -> str:
    """Return the command that plans a question with free shardings."""
    node = min(question.topology.domain_devices, question.devices)
    value_of_option: dict[str, object] = {
        "--model": tune_options.described.model,
        "--mesh": f"{question.devices // node}x{node}",
        "--memory": tune_options.memory,
        "--accelerator": tune_options.calibration or tune_options.accelerator,
        "--seq": question.sequence,
        "--global-batch": question.global_batch,
        "--dtype": None if question.precision == "bf16" else question.precision,
    }
    options = [f"{name} {shlex.quote(str(value))}" for name, value in value_of_option.items() if value is not None]
    return " ".join(["evenflow auto", *options])


def two_level(tuned: Tuned, config: ModelConfig, time_left: TimeLeft, *, rows: int) -> TwoLevel:
    """Plan the degrees of a row, the best degrees and free shardings, all at the same costs, to compare them.

    It is the first of `rows` whose degrees two-level plans have.
    """
    row, reason = 0, ""
    degrees = plain = free = None
    with shown_step(_("loading PyTorch")) as progress:
        try:
            with torch_extra(place=REFINE), abandonable():
                import evenflow_torch.models.training_row  # noqa: F401 - it imports both
            plan = _Planner(tuned.question, config, progress)
            row = 1 + next(
                (number for number, candidate in enumerate(tuned.ranked[:rows]) if plan.has(candidate.training)), -1
            )
            if row:
                training = tuned.ranked[row - 1].training
                degrees = plan.planned(
                    time_left.share(_DEGREES_SHARE),
                    only_plain=True,
                    fixed=_fixed(training),
                    microbatch=training.microbatch * training.degrees.data,
                    num_microbatches=training.microbatches,
                )
                free = plan.planned(time_left.share(_FREE_SHARE), global_batch=training.global_batch)
                count = free.num_microbatches
                plain = plan.planned(
                    time_left,
                    only_plain=True,
                    microbatch=training.global_batch // count,
                    num_microbatches=count,
                )
            else:
                reason = _("the degrees of no row are among the plain plans of `evenflow auto`")
        except InputError as error:
            reason = error.message
        except (KeyboardInterrupt, TimeoutError):
            reason = _("the time was over before all were planned: --time-limit gives more")
            if was_interrupted():
                reason = _("a signal came before all were planned")
    return TwoLevel(
        row=row,
        degrees=None if degrees is None else _in_short(degrees, tuned.question),
        plain=None if plain is None else _in_short(plain, tuned.question),
        free=None if free is None else _in_short(free, tuned.question),
        lower_bound_ns=0 if free is None else min((batch.lower_bound_ns or 0 for batch in free.batches), default=0),
        reason=reason,
    )


class _Planner:
    """Plans the model of a question at both levels."""

    def __init__(self, question: TuningQuestion, config: ModelConfig, progress: Callable[[str], None]) -> None:
        self.question, self.config, self.progress = question, config, progress
        accelerator = question.topology.accelerator
        node = min(question.topology.domain_devices, question.devices)
        intra, inter = usual_links(accelerator)
        self.cluster = Cluster(
            num_nodes=question.devices // node,
            devices_per_node=node,
            memory_bytes=question.usable_bytes,
            intra=intra,
            inter=inter,
        )

    def has(self, training: Training) -> bool:
        """Return whether there are plain plans with the degrees of a training: experts split as everything else."""
        from evenflow_torch.auto.stages.meshes_tried import has_plain_way
        from evenflow_torch.auto.stages.request import TwoLevelRequest

        experts = training.model.experts
        if experts is not None and expert_tensor(training) != training.degrees.tensor:
            return False
        request = TwoLevelRequest(cluster=self.cluster, fixed=_fixed(training))
        return has_plain_way(request, has_experts=experts is not None)

    def planned(self, time_left: TimeLeft, **sizes: Any) -> "AutoPlan":
        """Return a plan; raises TimeoutError where there was no time for any, InputError where nothing fits."""
        from evenflow_torch.auto.config_planner import plan_config
        from evenflow_torch.auto.deadline import Deadline
        from evenflow_torch.auto.sharding.overlap import Overlap

        question, deadline = self.question, Deadline.after(time_left.seconds)
        experts = question.model.experts
        try:
            with abandonable():
                auto_plan = plan_config(
                    self.config.fields,
                    self.cluster,
                    sequence=question.sequence,
                    accelerator=question.topology.accelerator,
                    dtype=question.precision,
                    overlap=Overlap.of(name for name in _OVERLAPS if getattr(question.software, f"overlaps_{name}")),
                    expert_capacity=None if experts is None else experts.capacity_factor,
                    deadline=deadline,
                    name=self.config.name,
                    progress=self.progress,
                    **sizes,
                )
        except InputError:
            if deadline.is_over:
                raise TimeoutError from None
            raise
        if auto_plan.search.shortage is not None:
            rule = _("must fit at these costs: {message}", message=auto_plan.search.shortage.message(self.cluster))
            raise InputError(rule=rule, place=_("the plan"))
        return auto_plan


def _fixed(training: Training) -> "Fixed":
    from evenflow_torch.auto.fixing.fixed import Fixed

    degrees = training.degrees
    return Fixed(
        tensor=degrees.tensor,
        data=degrees.data,
        context=degrees.context,
        expert=degrees.expert,
        pipeline=degrees.pipeline,
        zero=degrees.sharding,
    )


def _in_short(plan: "AutoPlan", question: TuningQuestion) -> TwoLevelStep:
    from evenflow_torch.auto.stage_groups import summary

    count, simulation = plan.num_microbatches, plan.simulation
    return TwoLevelStep(
        step_ns=int(simulation.makespan_ns),
        microbatch=question.global_batch // count,
        num_microbatches=count,
        schedule=simulation.plan.schedule,
        peak_bytes=int(max(simulation.peak_memory_bytes)),
        description=summary(plan.stages),
    )


REFINER = Refiner(check=check_refine, command=free_command, answer=two_level)
"""The entry point ``auto`` of ``evenflow.refiners``."""
