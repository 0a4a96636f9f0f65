"""Recognition of a GPU by its name, its family, and what a recording states of it."""
