"""Recordings of one run, a file a process or a machine, made one on one clock."""
