"""Several runs behind one host link, or on one GPU."""
