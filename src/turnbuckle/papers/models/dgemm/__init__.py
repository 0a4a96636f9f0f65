"""Break-even of a matrix product on the device."""
