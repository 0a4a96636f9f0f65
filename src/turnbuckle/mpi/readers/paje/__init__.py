"""Paje traces, as SimGrid's SMPI writes them."""
