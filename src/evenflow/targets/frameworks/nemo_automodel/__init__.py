"""NeMo AutoModel: recipes in YAML, written and read."""
