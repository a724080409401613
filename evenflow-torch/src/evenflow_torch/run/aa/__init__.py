"""The A/A check: finished work done again in the bubbles, and compared bit for bit."""
