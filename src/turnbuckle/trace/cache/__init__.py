"""Copies of big recordings' tables in the user's cache folder."""
