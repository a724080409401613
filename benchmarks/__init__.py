"""Measurements of evenflow: plan quality on named cases, speed, fidelity. See README.md beside this file."""
