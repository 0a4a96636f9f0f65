"""A kernel's duration by the memory divergence model."""
