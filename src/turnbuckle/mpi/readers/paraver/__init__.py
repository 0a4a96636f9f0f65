"""Paraver traces of Extrae."""
