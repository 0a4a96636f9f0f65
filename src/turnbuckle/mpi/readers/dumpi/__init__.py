"""DUMPI traces of the SST suite."""
