"""The text that verbs print: one module for each kind of result, and tables."""
