"""A sparse triangular solve on several GPUs."""
