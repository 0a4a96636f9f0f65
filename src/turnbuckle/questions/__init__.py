"""One folder a question: the question, its tables, its figures, its command."""
