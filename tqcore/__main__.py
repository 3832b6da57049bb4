"""``python -m tqcore`` is the ``tqcore`` command."""

from tqcore.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
