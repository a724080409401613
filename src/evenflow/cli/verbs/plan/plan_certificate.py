"""The certificate of ``evenflow plan --certificate``: what it may be asked for, and how it is made."""

from dataclasses import replace

from evenflow.cli.shared.progress import shown_step
from evenflow.cli.verbs.plan.plan_job import PlanJob
from evenflow.cli.verbs.plan.plan_options import Task
from evenflow.errors import InputError
from evenflow.export.results.certificate_fields import certificate_file
from evenflow.fields import MOST_BYTES
from evenflow.interruption import was_interrupted
from evenflow.language import _
from evenflow.simulate import Simulation
from evenflow.solve.certificate.certify import certify
from evenflow.solve.certificate.described import not_covered
from evenflow.solve.problem import make_problem, problem_of_order
from evenflow.verify import Certificate

OPTION = "--certificate"


def check_certifiable(job: PlanJob) -> None:
    """Refuse, before the search, to certify what no certificate covers."""
    options = job.options
    chooses = options.task is not Task.ONE_SCHEDULE or job.contest.group_sizes == "every"
    if options.target is not None or chooses or job.contest.place_ranks is not None or job.contest.host_links:
        raise InputError(
            rule=_("must come with one schedule, and without --target, --place-ranks, --group-size best and --offload"),
            place=OPTION,
            remedy=_("find the plan first, then give its --schedule, --chunks and --group-size"),
        )
    reason = not_covered(make_problem(job.request, schedule=job.schedule))
    if reason:
        raise InputError(rule=reason, place=OPTION, remedy=_("leave it out"))


def certified(job: PlanJob, simulation: Simulation, *, seconds: float) -> Certificate | None:
    """Return the certificate of a plan of a job; None where a signal ended the work before there was one.

    Raises InputError where the time is too short for any bound.
    """
    plan = simulation.plan
    request = replace(job.request, sizes=plan.sizes, group_size=plan.group_size)
    problem = problem_of_order(request, simulation.timeline.schedule)
    with shown_step(_("writing down a proof that others can check")):
        certificate = certify(problem, problem.counts(plan), seconds=seconds, keep_going=lambda: not was_interrupted())
    if certificate is None and was_interrupted():
        return None
    if certificate is None or len(certificate_file(certificate)) > MOST_BYTES:
        raise InputError(
            value=f"{job.options.time_limit:g} s",
            rule=_("must be long enough for a proof that others can check; the plan itself is as printed"),
            place=OPTION,
            remedy=_("give more with --time-limit"),
        )
    return certificate
