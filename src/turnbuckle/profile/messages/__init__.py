"""Messages of a recording: MPI calls, collectives of NCCL, bytes by route."""
