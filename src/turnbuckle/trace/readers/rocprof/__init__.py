"""Recordings of AMD's profilers: databases, JSON and CSV."""
