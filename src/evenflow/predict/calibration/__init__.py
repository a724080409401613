"""Fits what an accelerator reaches to measured runs, and says what these determine."""
