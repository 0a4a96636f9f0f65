"""Schedules: MPI programs without clocks."""
