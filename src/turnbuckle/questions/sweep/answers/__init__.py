"""Answers of a sweep: the workers that compute them, and how many points are kept in memory and on
the disk.
"""
