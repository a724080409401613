"""The placement of every tensor on a mesh, as a program and its solution."""
