"""The command line: one file a verb, thin over the library; nothing imports it."""
