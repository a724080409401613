"""Language models beside Llama-like decoders: GPT-2-like ones, encoders, and encoders with decoders.

Read `table` first: it says where the parts of each are; `family_row` makes a row of them.
"""
