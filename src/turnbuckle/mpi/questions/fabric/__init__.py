"""Machines as networks."""
