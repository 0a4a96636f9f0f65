"""How many cores a GPU needs, and how many ranks it carries: fits over runs of one program."""
