"""One folder a question about messages."""
