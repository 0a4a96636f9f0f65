"""Effect of GPUDirect on an MPI run, by ranks per node."""
