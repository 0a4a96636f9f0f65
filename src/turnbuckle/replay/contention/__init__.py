"""Processes that share resources and links, event by event."""
