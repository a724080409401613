"""What shardings are called in the field: what every axis of a mesh is used for, and the words for it."""
