"""Mixtures of experts: those of a layer as one operator."""
