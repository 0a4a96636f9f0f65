"""Summary of a recording: where its time goes, and its flaws."""
