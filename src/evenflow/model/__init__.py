"""The model and the plan: plain values, no behaviour beyond checking themselves."""

from evenflow.model.network import EndBlock, Layer, LayerRun, Mode, Network
from evenflow.model.plan import Cells, Communication, Plan, cells
from evenflow.model.recompute import BOTH, COMM, FULL, NONE, SELECT
from evenflow.model.request import Request
from evenflow.model.sizes import Sizes

__all__ = [
    "BOTH",
    "COMM",
    "FULL",
    "NONE",
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
]
