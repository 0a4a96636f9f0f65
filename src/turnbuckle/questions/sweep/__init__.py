"""Every combination of settings on every recording, as one table."""
