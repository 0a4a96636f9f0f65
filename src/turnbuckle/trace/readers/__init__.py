"""One file a format; formats die here: beyond this folder there is only the `Trace`.

A reader has ``sniff(head, path) -> bool`` (the file's first bytes are enough to say that the file is its own) and
``read(path, *, threads, progress) -> Trace``.
"""
