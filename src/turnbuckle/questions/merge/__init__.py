"""Recordings of one run, made one."""
