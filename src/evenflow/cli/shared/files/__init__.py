"""Files of a command: read whole, written whole or not at all, known again by a mark."""
