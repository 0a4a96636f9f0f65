"""``python -m turnbuckle`` is the command ``turnbuckle``."""

from turnbuckle.cli import main

if __name__ == "__main__":
    main()
