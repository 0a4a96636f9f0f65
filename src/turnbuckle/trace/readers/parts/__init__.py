"""Parts that readers of several formats share: packed text, JSON, SQLite, growing tables."""
