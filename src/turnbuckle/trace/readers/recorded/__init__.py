"""What Turnbuckle's own recorders write."""
