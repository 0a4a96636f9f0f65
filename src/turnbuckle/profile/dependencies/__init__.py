"""Which activity waits for which."""
