"""The verbs: a module for each, or a package where a verb has parts of its own."""
