"""Every sentence that the page's script shows, by key: the script itself has none."""

from evenflow.language import _


def page_sentences() -> dict[str, str]:
    """Return the sentences in the language spoken now; the script fills in what is ``{in_braces}``."""
    return (
        _names() | _idle() | _table() | _viewer() | _page() | _arranged() | _beside() | _dock() | _keys() | _what_if()
    )


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
        "memory": _("Memory"),
        "limit": _("limit"),
        "measured": _("measured"),
    }


def _idle() -> dict[str, str]:
    return {
        "idle": _("idle"),
        "fill_drain": _("fill and drain"),
        "imbalance": _("imbalance"),
        "recomputing": _("recompute"),
        "communication": _("communication"),
        "host_copies": _("host copies"),
        "waiting": _("waiting"),
        "exposed": _("exchanges with nothing beside them"),
    }


def _table() -> dict[str, str]:
    return {
        "peak": _("peak memory"),
        "busy": _("busy"),
        "searched": _("All configurations"),
        "needs_script": _("This browser runs no scripts, so the timeline is not drawn; the figures stand below."),
        "decision": _("What memory is worth"),
        "figures": _("More figures"),
        "ranks": _("Ranks: work, idle time, memory"),
        "idle_table": _("Idle time by cause"),
        "run": _("How to run it"),
        "copy": _("Copy"),
        "copied": _("Copied"),
    }


def _viewer() -> dict[str, str]:
    """Return the sentences on an action under the pointer, and on the picture."""
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
        "to_host": _("copy to the host"),
        "from_host": _("copy back"),
        "encoders_forward": _("encoders' forward"),
        "encoders_backward": _("encoders' backward"),
        "runs_beside": _("runs beside"),
        "pair_saves": _("which saves {time}"),
        "hidden": _("exchange hidden by a pair"),
    }


def _page() -> dict[str, str]:
    """Return the sentences around the pictures."""
    return {
        "theme": _("Theme"),
        "light": _("light"),
        "dark": _("dark"),
        "colours": _("Colours"),
        "paper_colours": _("as in papers"),
        "safe_colours": _("as in all pictures"),
        "save_svg": _("Save SVG"),
        "save_png": _("Save PNG"),
        "save_plan": _("Save plan"),
        "perfetto": _("Open in Perfetto"),
        "perfetto_hint": _("Saves a Chrome trace, which ui.perfetto.dev opens"),
        "timelines": _("Timelines"),
        "beside": _("side by side"),
        "made_by": _("made by {program}"),
        "timeline_tools": _("Tools of the timeline"),
        "search": _("Search"),
        "search_example": _("search, as r3 mb7 B"),
        "search_found": _("{number} of {count}"),
        "search_nothing": _("nothing found"),
        "search_unknown": _("r, c, s, mb with a number, or F, B, I, W"),
        "zoom_in": _("Zoom in"),
        "zoom_out": _("Zoom out"),
        "whole": _("whole step"),
        "show_causes": _("idle by cause"),
        "show_critical": _("critical path"),
        "legend": _("Legend"),
        "shades_are_chunks": _("darker: later chunks"),
        "idle_by": _("idle by:"),
        "idle_share": _("idle, of the step"),
        "framework": _("Framework"),
        "copy_failed": _("select it and copy"),
        "actions": _("All actions as a table"),
        "table_action": _("action"),
        "previous": _("previous"),
        "next": _("next"),
        "page_of": _("{page} of {pages}"),
        "close": _("Close"),
    }


def _arranged() -> dict[str, str]:
    """Return the names of what arranges rows."""
    return {
        "ranks_tool": _("ranks …"),
        "ranks_plain": _("all as they were"),
        "pin_rank": _("pin"),
        "fold_rank": _("fold"),
        "rank_up": _("move up"),
        "rank_down": _("move down"),
        "rows_higher": _("Higher rows"),
        "rows_lower": _("Lower rows"),
    }


def _beside() -> dict[str, str]:
    """Return the sentences on timelines beside each other."""
    return {
        "steps": _("Steps"),
        "timeline": _("timeline"),
        "step": _("step"),
        "longer_by": _("longer by"),
        "per_microbatch": _("step per microbatch"),
        "fits": _("fits"),
        "fits_by": _("yes, {memory} free"),
        "over_by": _("no, {memory} over the limit"),
        "peak_rank": _("most memory on"),
        "time_axis": _("Time axis"),
        "one_axis": _("one for all"),
        "own_axes": _("each from start to end"),
        "differences": _("Differences by rank"),
        "differences_by_action": _("Differences by action"),
        "against": _("{name} against {base}"),
        "predicted_minus": _("{name} minus {base}"),
        "by_stage": _("By stage"),
        "difference": _("difference"),
        "largest_by": _("the largest of"),
        "actions_alone": _("{count} actions are in one of both alone."),
        "unequal_microbatches": _(
            "{name} has {own} microbatches where {base} has {others}: it is compared for as many, its step multiplied, "
            "which counts its fill and drain as often."
        ),
        "unequal_tokens": _(
            "{name} works through other tokens a step than {base}: it is compared for as many, its step multiplied."
        ),
        "unequal_work": _(
            "{name} has other layers or larger microbatches than {base}: their steps are not compared, since their "
            "work is not known to be the same."
        ),
    }


def _dock() -> dict[str, str]:
    """Return the sentences on what is chosen."""
    return {
        "dock": _("What is chosen"),
        "close_dock": _("Choose nothing"),
        "sums_tool": _("sums"),
        "sums_hint": _("Sums of what is seen; dragging with Shift marks another part of the step"),
        "range_title": _("From {from} to {to}: {length}"),
        "zoom_to_range": _("zoom to it"),
        "all_ranks": _("all ranks"),
        "messages_travel": _("messages to it travel"),
        "idle_on": _("idle on rank {rank}"),
        "until": _("until"),
        "end_of_step": _("the end of the step"),
        "waits_for": _("waits for"),
        "holds_at": _("holds at {time}"),
        "held_free": _("{held}, {memory} free"),
        "held_over": _("{held}, {memory} over the limit"),
        "held_fixed": _("weights, gradients, optimizer"),
        "held_moving": _("activations and working space"),
        "not_there": _("has no such action"),
        "differs_by": _("begins {begins}, takes {takes}"),
        "go_decided": _("to what let it begin"),
        "go_needs": _("to what it needs"),
        "go_needed": _("to what needs it"),
        "go_behind": _("to what is behind it"),
        "path_sentence": _(
            "Rank {rank} carries {share} of the longest path. With {off} less work on every microbatch there, the step "
            "is {saved} shorter (simulated)."
        ),
        "of_path": _("of the path"),
        "less_work": _("less work on every microbatch"),
        "off_saves": _("{off} saves {saved}"),
    }


def _keys() -> dict[str, str]:
    return {
        "help": _("Keys"),
        "help_mouse": _(
            "The wheel zooms, dragging moves, dragging with Shift sums what is marked, a double click fits an action. "
            "A click tells of an action, a gap or the memory there, and shows what decided when an action starts."
        ),
        "key_zoom": _("zoom in and out"),
        "key_pan": _("move left and right"),
        "key_whole": _("see the whole step"),
        "key_along": _("the action before, the action behind on the rank"),
        "key_across": _("what the action needs, what needs it"),
        "key_enter": _("choose an action, go to it"),
        "key_escape": _("choose none"),
        "key_search": _("search"),
        "key_switch": _("another timeline"),
        "key_help": _("these keys"),
        "key_what_if": _("change the plan, or go back to it"),
    }


def _what_if() -> dict[str, str]:
    """Return the sentences of the mode in which a plan is changed."""
    return {
        "what_if": _("What if"),
        "what_if_hint": _(
            "Move layers, change what recomputes, the microbatches or the memory, and see what becomes of the step"
        ),
        "what_if_help": _(
            "Drag a border between two stages, or choose one and press ← or →. Choose a stage to change what it "
            "recomputes."
        ),
        "what_if_unknown": _("This plan cannot be changed here: the page does not hold its model."),
        "what_if_inexact": _("This plan cannot be changed here: the page does not come to its times exactly."),
        "what_if_command": _("Save the plan, then run"),
        "undo": _("Undo"),
        "redo": _("Redo"),
        "back_to_plan": _("Back to the plan"),
        "microbatches": _("microbatches"),
        "memory_limit": _("memory limit, {unit}"),
        "microbatches_fixed": _("The page makes the order of {family} for this number of microbatches alone."),
        "microbatches_own_order": _(
            "The plan has an order of its own, which is for this number of microbatches alone."
        ),
        "cut_label": _("Stages, as wide as they have layers"),
        "chunk_of_rank": _("chunk {chunk} of rank {rank}"),
        "border_label": _("border between {before} and {behind}"),
        "layers_on_both": _("{before} layers before it, {behind} behind it"),
        "layer_alone": _("layer {first}"),
        "layers_from_to": _("layers {first} to {last}"),
        "no_layers": _("no layers"),
        "recompute_kind": _("recompute {kind}"),
        "step_as_before": _("The step takes {step}, as in the plan."),
        "step_longer": _("The step takes {step}: {difference} ({share} %) longer than in the plan, {before}."),
        "step_shorter": _("The step takes {step}: {difference} ({share} %) shorter than in the plan, {before}."),
        "each_as_before": _("The step takes {step}: {each} for each of {count} microbatches, as in the plan."),
        "each_longer": _(
            "The step takes {step}: {each} for each of {count} microbatches, {difference} ({share} %) longer than in "
            "the plan, {before}."
        ),
        "each_shorter": _(
            "The step takes {step}: {each} for each of {count} microbatches, {difference} ({share} %) shorter than in "
            "the plan, {before}."
        ),
        "peak_over": _("{held}, {memory} over"),
        "memory_most": _("Rank {rank} holds most: {memory}."),
        "memory_fits": _("Memory fits, with {memory} free on rank {rank}, which holds most."),
        "memory_over": _("Memory does not fit: rank {rank} is over the limit, by {memory}."),
        "memory_over_several": _("Memory does not fit: ranks {ranks} are over the limit, by {memory} at most."),
    }
