"""Readers of recording formats, one file or folder per format; all other rooms see only the `Trace`
that a reader returns.

A reader has ``sniff(head, path) -> bool``, which decides from the file's first bytes (and where
needed more of it) whether the file has its format, and ``read(path, *, threads, progress) ->
Trace``.
"""
