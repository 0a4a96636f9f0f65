"""Messages that were really delayed, beside what was predicted."""
