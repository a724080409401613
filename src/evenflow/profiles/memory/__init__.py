"""Memory of a model from peaks that were measured: which dry runs to do, and what their peaks say."""
