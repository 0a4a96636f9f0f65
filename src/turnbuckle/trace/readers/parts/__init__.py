"""What readers of several formats share: packed text, JSON, SQLite, tables that grow."""
