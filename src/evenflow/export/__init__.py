"""Writers of what nothing here reads back: blocks and YAML for frameworks, timelines, and the JSON of results."""
