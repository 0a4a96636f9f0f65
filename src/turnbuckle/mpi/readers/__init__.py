"""Recordings of MPI programs."""
