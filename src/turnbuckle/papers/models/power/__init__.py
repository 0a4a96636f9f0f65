"""What GPUs of a given power compute in a later year."""
