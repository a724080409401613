"""Stages of two-level plans, each on several devices."""
