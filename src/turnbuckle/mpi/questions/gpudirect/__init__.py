"""Messages between GPUs, through host memory or straight from device memory."""
