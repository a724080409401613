"""Two-level planning: how operators are split inside a stage, and stages over submeshes."""
