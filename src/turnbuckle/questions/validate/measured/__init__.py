"""Programs that ran farther away, or at once, for real; beside what was predicted."""
