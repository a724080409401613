"""What the verbs print: tables and the lines around them."""
