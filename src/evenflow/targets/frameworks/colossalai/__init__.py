"""ColossalAI: what its plugin for hybrid parallelism runs, and plans as arguments of it."""
