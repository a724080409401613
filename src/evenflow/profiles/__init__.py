"""Files as model objects: readers, one a source, from text or a path, and beside them the writers of the same files."""
