"""What a recording amounts to."""
