"""The model and the plan: plain values that check themselves and do nothing else."""

from evenflow.model.abilities import (
    Abilities,
    Empty,
    Groups,
    Mtp,
    Recomputation,
    ScheduleLimits,
    Scope,
    SizeRule,
    check_no_keepers,
    even_cut,
)
from evenflow.model.blocks import LayerBlocks, blocks_of, whole_blocks_of
from evenflow.model.cell_rule import ANY_CONTENT, SELECT_OR_COMM, CellRule, mixing
from evenflow.model.communication import Communication
from evenflow.model.cut_check import check_cut
from evenflow.model.encoder_work import EncoderWork
from evenflow.model.fewer_kinds import without_idle_kinds, without_offload, without_recompute
from evenflow.model.halves import (
    Halves,
    PassHalves,
    exchange_spans,
    released_spans,
    saved_by_exchange,
    saved_ns,
)
from evenflow.model.host_link import HostLink
from evenflow.model.kept_first import groups_of, moved_of_first
from evenflow.model.moved_share import MovedGroups, chain_of, shares_between, with_chain, with_moved_share
from evenflow.model.network import EndBlock, Layer, LayerRun, Mode, Network
from evenflow.model.network_source import NetworkSource, as_network
from evenflow.model.offloaded import moved_kind, with_offload
from evenflow.model.plan import Cells, MovedShare, Plan, cells
from evenflow.model.rank_traits import RankTraits
from evenflow.model.recompute import (
    BOTH,
    COMM,
    FULL,
    KNOWN_KINDS,
    NONE,
    OFFLOAD,
    SELECT,
    SET_JOINT,
    is_kind_name,
    moves,
    ordered_kinds,
)
from evenflow.model.recompute_parts import RECOMPUTE_PARTS, recomputed_parts
from evenflow.model.request import Request, check_step
from evenflow.model.segments import (
    WHOLE,
    has_whole_segments,
    offering,
    one_by_one,
    segment_kind,
    segment_length,
    with_segments,
)
from evenflow.model.sizes import Sizes
from evenflow.model.split import check_split, deal_layers
from evenflow.model.stage_ranks import looped, stage_cells, stage_table, v_shaped
from evenflow.model.stage_rules import StageRule

__all__ = [
    "ANY_CONTENT",
    "BOTH",
    "COMM",
    "FULL",
    "KNOWN_KINDS",
    "NONE",
    "OFFLOAD",
    "RECOMPUTE_PARTS",
    "SELECT",
    "SELECT_OR_COMM",
    "SET_JOINT",
    "WHOLE",
    "Abilities",
    "CellRule",
    "Cells",
    "Communication",
    "Empty",
    "EncoderWork",
    "EndBlock",
    "Groups",
    "Halves",
    "HostLink",
    "Layer",
    "LayerBlocks",
    "LayerRun",
    "Mode",
    "MovedGroups",
    "MovedShare",
    "Mtp",
    "Network",
    "NetworkSource",
    "PassHalves",
    "Plan",
    "RankTraits",
    "Recomputation",
    "Request",
    "ScheduleLimits",
    "Scope",
    "SizeRule",
    "Sizes",
    "StageRule",
    "as_network",
    "blocks_of",
    "cells",
    "chain_of",
    "check_cut",
    "check_no_keepers",
    "check_split",
    "check_step",
    "deal_layers",
    "even_cut",
    "exchange_spans",
    "groups_of",
    "has_whole_segments",
    "is_kind_name",
    "looped",
    "mixing",
    "moved_kind",
    "moved_of_first",
    "moves",
    "offering",
    "one_by_one",
    "ordered_kinds",
    "recomputed_parts",
    "released_spans",
    "saved_by_exchange",
    "saved_ns",
    "segment_kind",
    "segment_length",
    "shares_between",
    "stage_cells",
    "stage_table",
    "v_shaped",
    "whole_blocks_of",
    "with_chain",
    "with_moved_share",
    "with_offload",
    "with_segments",
    "without_idle_kinds",
    "without_offload",
    "without_recompute",
]
