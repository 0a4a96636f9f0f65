"""Time that a change to the program would save, on the recorded machine and on others."""
