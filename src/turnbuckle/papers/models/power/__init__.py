"""Rate of GPUs of a given power in a later year."""
