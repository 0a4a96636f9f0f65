"""Whether a matrix product is worth moving to the device."""
