"""Certificates: proofs that others can check without the solver."""
