"""What people see: tables, figures and words, the same on the terminal, in files and in reports."""
