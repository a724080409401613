"""The model and the plan: plain values that check themselves and do nothing else."""

from evenflow.model.network import EndBlock, Layer, LayerRun, Mode, Network
from evenflow.model.plan import Cells, Communication, Plan, cells
from evenflow.model.recompute import BOTH, COMM, FULL, KNOWN_KINDS, NONE, SELECT, ordered_kinds
from evenflow.model.recompute_parts import RECOMPUTE_PARTS, recomputed_parts
from evenflow.model.request import Request, check_step
from evenflow.model.sizes import Sizes
from evenflow.model.split import check_split, deal_layers
from evenflow.model.stage_ranks import looped, stage_table, v_shaped

__all__ = [
    "BOTH",
    "COMM",
    "FULL",
    "KNOWN_KINDS",
    "NONE",
    "RECOMPUTE_PARTS",
    "SELECT",
    "Cells",
    "Communication",
    "EndBlock",
    "Layer",
    "LayerRun",
    "Mode",
    "Network",
    "Plan",
    "Request",
    "Sizes",
    "cells",
    "check_split",
    "check_step",
    "deal_layers",
    "looped",
    "ordered_kinds",
    "recomputed_parts",
    "stage_table",
    "v_shaped",
]
