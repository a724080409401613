"""Pictures of two-level plans, and what reports show of plans and runs."""
