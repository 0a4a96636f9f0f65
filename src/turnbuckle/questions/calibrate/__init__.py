"""Measurements of a machine, made a machine file with errors and sources."""
