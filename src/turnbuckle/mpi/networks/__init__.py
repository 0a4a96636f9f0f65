"""Networks between ranks: routes, graphs of messages, LiMPPy."""
