"""Parts that several verbs share: options, input and output files, progress."""
