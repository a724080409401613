"""What a run measures, and how it compares with the prediction."""
