"""Two-level planning: operators sharded inside a stage, stages on submeshes of a cluster."""
