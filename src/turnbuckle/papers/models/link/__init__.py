"""Bytes on a link, and what they leave for data."""
