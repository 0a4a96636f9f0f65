"""How much distance a run tolerates."""
