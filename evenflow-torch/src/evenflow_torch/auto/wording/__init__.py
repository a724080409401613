"""Describes shardings in the field's terms: what every axis of a mesh is used for, and its name."""
