"""Bounds on the run time at a third latency from a gain between two others."""
