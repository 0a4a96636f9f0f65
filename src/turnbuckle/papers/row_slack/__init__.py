"""Shorts and Grant 2024, SC24-W: row-scale disaggregation, and its method on a recording beside
ours.
"""
