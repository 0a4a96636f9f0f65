"""The run as recorded and as projected, activity by activity."""
