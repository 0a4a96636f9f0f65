"""The command line: one verb is one library call."""

from __future__ import annotations


def main() -> None:
    """Run the ``turnbuckle`` command; end the process with the exit code of
    `turnbuckle.cli.run`.
    """
    import errno
    import os

    if "OPENBLAS_NUM_THREADS" not in os.environ:
        # NumPy's threads wait for work in a loop, which takes longer than our small systems of
        # equations.  `putenv` leaves `os.environ` unchanged, so a program that `record` starts does
        # not inherit the setting.
        os.putenv("OPENBLAS_NUM_THREADS", "1")
    try:
        from turnbuckle.cli.run import main as run
    except (OSError, MemoryError) as error:
        number = error.errno if isinstance(error, OSError) else errno.ENOMEM
        if number not in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        code, what = (
            ("L002", "too little memory")
            if number == errno.ENOMEM
            else ("L001", "too few files may be open at once")
        )
        # nothing more can be loaded, so the message is written directly
        os.write(
            2,
            (
                f"error[{code}]: {what}\n  fix:   raise the limit: ulimit -n 1024, ulimit -v "
                "unlimited\n"
            ).encode(),
        )
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        os.write(2, b"interrupted\n")
        raise SystemExit(130) from None
    raise SystemExit(run())
