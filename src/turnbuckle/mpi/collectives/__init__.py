"""Collective operations as messages."""
