"""The exact simulator of a step: the time of every action, the memory of every rank, and the causes of idle time."""

from evenflow.simulate.bubbles import BubbleTable, FillDrain, IdleTime, as_fractions, idle_times, runs_by_cause
from evenflow.simulate.compiled import compiles_now, compiling, is_compiling, is_kept
from evenflow.simulate.copies import CopyTurns, aheads, away, turns_of, with_copies
from evenflow.simulate.costs import (
    HalvesTable,
    Integers,
    LayerSums,
    StageCosts,
    costs_of_counts,
    duration_table,
    end_bytes,
    layer_sums,
    link_delays_ns,
    message_table,
    message_times,
    network_of_units,
    plan_counts,
    sent_across,
    stage_costs,
    with_first_moved,
)
from evenflow.simulate.encoders import EncodedStep, EncoderParts
from evenflow.simulate.even_layout import idle_bubbles
from evenflow.simulate.exchange_times import ExchangeTimes
from evenflow.simulate.graph import Graph, build_graph, no_time_class, pair_class
from evenflow.simulate.host_use import HostUse, host_uses
from evenflow.simulate.idle_gaps import IdleGaps, gaps_ns, idle_gaps
from evenflow.simulate.measured_idle import Spans, covered_ns, waiting_ns
from evenflow.simulate.memory import (
    BesidePairs,
    beside_pairs,
    changes_at_both_ends,
    held_amounts,
    kept_as_if_none_left,
    live_at_peak,
    live_vectors,
    memory_changes,
    memory_curve,
    peak_bytes,
)
from evenflow.simulate.pairs import at_best_in_pairs, check_pairs, compared_families, pairs_save, release_saves
from evenflow.simulate.path_shares import PathShare, path_shares
from evenflow.simulate.pools import away_vectors, pool_bytes
from evenflow.simulate.simulation import Simulation, simulate
from evenflow.simulate.timeline import InTurn, Timeline, makespan_ns, run

__all__ = [
    "BesidePairs",
    "BubbleTable",
    "CopyTurns",
    "EncodedStep",
    "EncoderParts",
    "ExchangeTimes",
    "FillDrain",
    "Graph",
    "HalvesTable",
    "HostUse",
    "IdleGaps",
    "IdleTime",
    "InTurn",
    "Integers",
    "LayerSums",
    "PathShare",
    "Simulation",
    "Spans",
    "StageCosts",
    "Timeline",
    "aheads",
    "as_fractions",
    "at_best_in_pairs",
    "away",
    "away_vectors",
    "beside_pairs",
    "build_graph",
    "changes_at_both_ends",
    "check_pairs",
    "compared_families",
    "compiles_now",
    "compiling",
    "costs_of_counts",
    "covered_ns",
    "duration_table",
    "end_bytes",
    "gaps_ns",
    "held_amounts",
    "host_uses",
    "idle_bubbles",
    "idle_gaps",
    "idle_times",
    "is_compiling",
    "is_kept",
    "kept_as_if_none_left",
    "layer_sums",
    "link_delays_ns",
    "live_at_peak",
    "live_vectors",
    "makespan_ns",
    "memory_changes",
    "memory_curve",
    "message_table",
    "message_times",
    "network_of_units",
    "no_time_class",
    "pair_class",
    "pairs_save",
    "path_shares",
    "peak_bytes",
    "plan_counts",
    "pool_bytes",
    "release_saves",
    "run",
    "runs_by_cause",
    "sent_across",
    "simulate",
    "stage_costs",
    "turns_of",
    "waiting_ns",
    "with_copies",
    "with_first_moved",
]
