"""What verbs share that write plans for frameworks or read them from their files."""
