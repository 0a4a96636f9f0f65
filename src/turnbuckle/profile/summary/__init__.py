"""Summary of a profile in numbers and words."""
