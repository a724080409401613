"""Writers, from values to the text of a file: blocks and YAML for frameworks, layer files, and the JSON of results."""
