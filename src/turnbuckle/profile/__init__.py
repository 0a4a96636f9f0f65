"""Profile of a run: its activities in their order."""
