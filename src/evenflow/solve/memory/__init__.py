"""The search for the plan that needs the least memory, proven to the byte."""
