"""Comparison of networks for the messages of a run."""
