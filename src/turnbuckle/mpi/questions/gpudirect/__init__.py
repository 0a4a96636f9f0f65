"""Messages between GPUs, by host memory or straight from device memory."""
