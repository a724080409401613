"""The search for degrees, against every configuration solved by itself."""

from evenflow.cluster.data_sheets import accelerator_named
from evenflow.cluster.topology import Topology
from evenflow.predict.transformer import Transformer
from evenflow.solve.plan import solve
from evenflow.tune.axes import schedule_of
from evenflow.tune.candidate import Pricing
from evenflow.tune.question import Question
from evenflow.tune.search import search
from evenflow.tune.space import space_of


def question() -> Question:
    model = Transformer(
        hidden=2048, layers=8, heads=16, kv_heads=8, head_dim=128, ffn=5632, vocabulary=32000, gated=True
    )
    return Question(
        model=model,
        topology=Topology(accelerator=accelerator_named("h100"), domain_devices=4),
        devices=8,
        global_batch=32,
        sequence=4096,
        memory_limit_bytes=16 * 2**30,
        schedules=("1f1b",),
    )


def test_the_best_of_all_configurations() -> None:
    asked = question()
    pricing = Pricing(question=asked)
    best = float("inf")
    for training in space_of(asked).legal:
        request = pricing.request(training, transfer_ns=pricing.message_ns(training))
        plan = solve(request, schedule=schedule_of(training), time_limit_s=2).plan
        if plan is not None:
            found = pricing.found(training, plan)
            if found is not None:
                best = min(best, found.step_ns)
    answer = search(asked, time_limit_s=60)
    assert answer.best is not None
    assert answer.lower_bound_ns <= best
    assert answer.best.step_ns <= best * 1.000005
