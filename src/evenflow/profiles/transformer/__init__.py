"""Transformers as plain numbers: from a configuration of Hugging Face, or from a few sizes."""
