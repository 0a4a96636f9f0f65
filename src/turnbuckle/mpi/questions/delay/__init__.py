"""Runs whose messages were really delayed, compared with predictions."""
