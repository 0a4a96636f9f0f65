"""A profile in numbers and words."""
