"""Arguments as Megatron-LM and its relatives print them, each on a line: ``  num_layers ........ 32``.

[Megatron-LM, `_print_args` in megatron/training/arguments.py; DeepSpeed prints its configuration in the same form]
"""

import re

PRINTED = re.compile(r"(?:^|[ \t:\]])([A-Za-z_][A-Za-z0-9_]*) \.+ ([^\n]*)$", re.MULTILINE)
"""Name and value of a printed argument."""
