"""Small pieces for a user's own training script, with which a framework runs a plan that its options cannot express."""
