"""The command line: one verb is one library call."""

from __future__ import annotations


def main() -> None:
    """Entry point of the ``turnbuckle`` command; ends the process with the exit code of `turnbuckle.cli.run`."""
    from turnbuckle.cli.run import run

    raise SystemExit(run())
