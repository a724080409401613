"""A step beside the work of its layers: cells, messages, and what the copies of a stage exchange."""
