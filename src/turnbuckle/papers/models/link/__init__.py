"""Bytes on a link, and the bandwidth that is left for data."""
