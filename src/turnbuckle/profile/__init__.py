"""A run as activities in an order."""
