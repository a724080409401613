"""The parts of a picture: axes, blocks, strips, bars and their legend."""
