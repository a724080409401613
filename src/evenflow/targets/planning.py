"""Planning, fitting and writing for a framework by its name, as `evenflow` has them in its face."""

from evenflow.asking import takes
from evenflow.model import Communication, NetworkSource, Plan, as_network
from evenflow.solve import BestOutcome, ProgressCallback
from evenflow.solve.for_target import solve_for_target
from evenflow.solve.requests import TargetRequest
from evenflow.targets.fitting import Fitted, fitted
from evenflow.targets.refusal import refusal
from evenflow.targets.registry import target_named
from evenflow.targets.target import Written


@takes(TargetRequest)
def plan_for_target(request: TargetRequest) -> BestOutcome:
    """Return the plan with the shortest makespan among those that a framework can run, proven for these plans.

    `target` is its name, such as ``megatron``, and `version` its version (default: the newest that is known). Tried are
    the framework's schedules, or those of `schedules` that it has; the other arguments are those of `plan_best`.

    Raises InputError for an unknown framework and for sizes that it cannot run, and Interrupted as `plan_best` does.
    """
    chosen = target_named(request.target, place="target")
    abilities = chosen.abilities(chosen.version(request.version))
    return solve_for_target(request.problem(), abilities, request, title=chosen.title, schedules=request.schedules)


def fit_plan(
    plan: Plan,
    network: NetworkSource,
    target: str,
    *,
    version: str | None = None,
    memory_limit_bytes: int | None = None,
    communication: Communication | None = None,
    allow_empty: bool = True,
    time_limit_s: float = 20.0,
    progress: ProgressCallback | None = None,
) -> Fitted:
    """Return `plan` as a framework will really run it: the nearest plan that it runs, with the price of each loss.

    The plan stays as it is where the framework runs it, and then nothing is lost. Else the cut is kept if it can be,
    and the solver chooses the rest within the limit, without one within the memory of `plan`; where it must cut anew,
    cells may be empty with `allow_empty`. Where nothing fits, the plan that comes nearest to fitting is returned: see
    `Simulation.fits`.

    The network may be the path of its layer file.

    Raises InputError for an unknown framework, for sizes that it cannot run at all, and where no plan was found in the
    time given.
    """
    chosen = target_named(target, place="target")
    return fitted(
        plan,
        as_network(network),
        communication,
        memory_limit_bytes,
        chosen.abilities(chosen.version(version)),
        chosen.title,
        allow_empty=allow_empty,
        time_limit_s=time_limit_s,
        progress=progress,
    )


def write_plan(plan: Plan, target: str, *, version: str | None = None) -> Written:
    """Return `plan` in the configuration of the framework with the name `target`, for its `version`.

    Raises InputError for an unknown framework and for a plan that it cannot run exactly: see `fit_plan`.
    """
    chosen = target_named(target, place="target")
    known = chosen.version(version)
    refused = refusal(plan, chosen.abilities(known), title=chosen.title)
    if refused is not None:
        raise refused
    return chosen.written(plan, known)
