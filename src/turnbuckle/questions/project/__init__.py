"""A recording on other machines."""
