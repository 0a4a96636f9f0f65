"""Run time by function, and the effect of tighter coupling on it."""
