"""What a gain between two latencies says of a third one."""
