"""The command line of a question: options, output, progress, tables on the terminal."""
