"""Which network suits the messages of a run."""
