"""GPUDirect against host copies on declared patterns."""
