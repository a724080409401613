"""ms-swift: plans as arguments of its commands, and its commands as plans."""
