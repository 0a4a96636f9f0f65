"""Copies of one node on the data sheet of another."""
