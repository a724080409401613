"""The search for good plans: simulated annealing on the exact makespan."""
