"""Every sentence that the page's script shows, by key: the script itself has none."""

from evenflow.language import _


def words() -> dict[str, str]:
    """Return the sentences in the language spoken now; the script fills in what is ``{in_braces}``."""
    return _names() | _idle() | _table() | _viewer()


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


def _viewer() -> dict[str, str]:
    """Return what is said of an action that is pointed at, and of the picture."""
    return {
        "viewer_label": _(
            "Timeline and memory of {name}. Zoom with W and S, move with A and D, choose with the arrows."
        ),
        "action": _("{action} of microbatch {microbatch} on rank {rank}"),
        "action_of_chunk": _("{action} of microbatch {microbatch}, chunk {chunk}, on rank {rank}"),
        "part": _("part of the sequence"),
        "layers": _("layers"),
        "stage_label": _("stage {stage}"),
        "begins": _("begins at"),
        "takes": _("takes"),
        "of_that_recompute": _("of that, recomputation"),
        "needs": _("needs"),
        "message_takes": _("which travels for {time}"),
        "idle_before": _("idle before it"),
        "started_by": _("could begin when this was done"),
    }
