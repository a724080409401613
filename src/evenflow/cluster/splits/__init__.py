"""What splits of dimensions mean, and what views make of them."""
