"""What the A/A check of a plan covers, as the fields of ``docs/result-schema.md``."""

from collections.abc import Sequence

from evenflow.aa import Coverage, RankChecks


def aa_coverage_fields(coverage: Coverage, checks: Sequence[RankChecks]) -> dict[str, object]:
    """Return what is covered in how many steps, and every check of every rank's rotation."""
    return {
        "steps": coverage.num_turns,
        "is_shortest": coverage.is_shortest,
        "hours_if_always": coverage.hours_if_always,
        "ranks": [
            {
                "steps": rank.num_turns,
                "at_least_steps": rank.at_least_turns,
                "kind_steps": rank.kind_turns,
                "work_share": rank.share,
                "errors_until_seen": coverage.errors_until_seen(index),
                "never": [
                    {"stage": stage, "direction": direction, "microbatches": count}
                    for (stage, direction), count in rank.never
                ],
                "rotation": [
                    [
                        {
                            "after": str(check.after),
                            "stage": check.stage,
                            "direction": check.direction,
                            "microbatch": check.microbatch,
                        }
                        for check in turn
                    ]
                    for turn in checks[index].rotation
                ],
            }
            for index, rank in enumerate(coverage.ranks)
        ],
    }
