"""Khetawat et al.: GPUDirect in TraceR-CODES."""
