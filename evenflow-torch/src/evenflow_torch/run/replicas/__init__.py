"""Data parallelism around the pipeline: replicas of it, each of which trains on samples of its own."""
