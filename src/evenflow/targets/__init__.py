"""The frameworks that plans are written for: what each can run, how a plan is written for it and read back."""
