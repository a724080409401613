"""Init files: what dry runs measured, in every documented form."""
