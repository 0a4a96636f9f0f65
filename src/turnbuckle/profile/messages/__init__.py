"""What a recording says of messages: MPI calls, collectives of NCCL, bytes by route."""
