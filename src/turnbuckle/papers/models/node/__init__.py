"""Where time goes, and what tighter coupling does to it."""
