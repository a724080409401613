"""A ranking of three configurations whose numbers a person can check."""

from dataclasses import replace

from evenflow.errors import InputError
from evenflow.model import FULL, Plan
from evenflow.predict.memory import Held, RankMemory
from evenflow.predict.prediction import PartTime, predict
from evenflow.predict.training import Degrees, Sharding, Training
from evenflow.solve import Status
from evenflow.tune.axes import Axis
from evenflow.tune.candidate import Candidate, PlannedStep, Pricing
from evenflow.tune.question import TuningQuestion
from evenflow.tune.tuned import Tuned
from tests.predict.trainings import LLAMA, TOPOLOGY, training, with_memory

GIGABYTE = 2**30
QUESTION = TuningQuestion(
    model=LLAMA,
    topology=TOPOLOGY,
    devices=8,
    global_batch=16,
    sequence=2048,
    memory_limit_bytes=16 * GIGABYTE,
    confidence=None,
    title="It",
    schedules=("1f1b", "interleaved"),
    fixed={Axis.ZERO: 1},
    most={Axis.CONTEXT: 2},
)


def candidate(one: Training, *, step_ms: float, gigabytes: float, full: tuple[tuple[int, ...], ...] = ()) -> Candidate:
    """A configuration with this step and so much memory on each rank, half of it parameters."""
    found = predict(one, TOPOLOGY)
    plan = replace(found.simulation.plan, recompute={FULL: full} if full else {})
    assert isinstance(plan, Plan)
    half = int(gigabytes * GIGABYTE / 2)
    rank = RankMemory(parts={Held.PARAMETERS: half, Held.MLP: half})
    parts = (
        PartTime(name="matrix products", exposed_ns=0.75e6 * step_ms),
        PartTime(name="bubble", exposed_ns=0.25e6 * step_ms),
    )
    prediction = with_memory(
        replace(found, simulation=replace(found.simulation, plan=plan)),
        (rank,) * plan.num_ranks,
        step_ns=step_ms * 1e6,
        parts=parts,
    )
    made = Candidate(
        training=one,
        pricing=Pricing(question=QUESTION),
        lower_bound_ns=step_ms * 0.99e6,
        found=PlannedStep(plan=plan, step_ns=step_ms * 1e6, parts=parts, rank_bytes=(2 * half,) * plan.num_ranks),
        status=Status.FEASIBLE,
    )
    made.__dict__["prediction"] = prediction
    return made


def ranking(**changes: object) -> Tuned:
    """Two that cannot be told apart where predictions are within a tenth, one that can, and one that was refuted."""
    chunked = training(
        degrees=Degrees(tensor=2, pipeline=2, chunks=2, data=2), schedule="interleaved", layout=((2, 2), (2, 2))
    )
    ranked = (
        candidate(training(), step_ms=400.0, gigabytes=12.0),
        candidate(chunked, step_ms=404.0, gigabytes=15.5, full=((2, 0), (0, 0))),
        candidate(
            training(degrees=Degrees(tensor=1, pipeline=1, context=2, data=4, sharding=Sharding.PARAMETERS)),
            step_ms=500.0,
            gigabytes=8.0,
            full=((8,),),
        ),
    )
    refuted = Candidate(training=training(), pricing=Pricing(question=QUESTION), lower_bound_ns=600e6)
    tuned = Tuned(
        question=QUESTION,
        ranked=ranked,
        made=(*ranked, refuted),
        excluded={"tensor": 3, "microbatch": 40},
        reasons={"tensor": InputError(value=3, rule="must divide", place="tensor")},
        lower_bound_ns=396e6,
        solve_seconds=1.5,
    )
    return replace(tuned, **changes)  # type: ignore[arg-type]
