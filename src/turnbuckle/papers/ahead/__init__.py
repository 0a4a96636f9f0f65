"""AHEAD: transfer times on a node that is not there yet."""
