"""What several verbs share: options, output files, progress."""
