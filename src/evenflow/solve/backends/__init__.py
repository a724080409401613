"""The solver libraries behind the proofs; only this package imports them."""
