"""Reader of execution traces of MLCommons Chakra and of PyTorch."""
