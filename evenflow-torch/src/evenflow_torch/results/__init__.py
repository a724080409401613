"""Results as the fields of JSON files."""
