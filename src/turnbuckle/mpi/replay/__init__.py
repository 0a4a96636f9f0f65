"""MPI programs replayed as processes that exchange messages."""
