"""Every sentence that the page's script shows, by key: the script itself has none."""

from evenflow.language import _


def words() -> dict[str, str]:
    """Return the sentences in the language spoken now; the script fills in what is ``{in_braces}``."""
    return _names() | _idle() | _table()


def _names() -> dict[str, str]:
    return {
        "forward": _("forward"),
        "backward": _("backward"),
        "input": _("input gradient"),
        "weight": _("weight gradient"),
        "recompute": _("recompute"),
        "microbatch": _("microbatch"),
        "chunk": _("chunk"),
        "stage": _("stage"),
        "rank": _("rank"),
        "rank_label": _("rank {rank}"),
        "timeline": _("Timeline"),
        "memory": _("Memory"),
        "limit": _("limit"),
        "measured": _("measured"),
        "planned": _("planned"),
    }


def _idle() -> dict[str, str]:
    return {
        "idle": _("idle"),
        "fill_drain": _("fill and drain"),
        "imbalance": _("imbalance"),
        "recomputing": _("recompute"),
        "communication": _("communication"),
        "other": _("not known"),
    }


def _table() -> dict[str, str]:
    return {
        "peak": _("peak memory"),
        "busy": _("busy"),
        "total": _("all"),
        "needs_script": _("This browser runs no scripts, so the timeline is not drawn; the figures stand below."),
        "decision": _("Decision"),
        "figures": _("Figures"),
        "ranks": _("Ranks"),
        "run": _("How to run it"),
        "copy": _("Copy"),
        "copied": _("Copied"),
    }
