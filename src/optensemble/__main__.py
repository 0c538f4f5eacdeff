"""``python -m optensemble``, the same as ``optensemble``."""

from optensemble.cli import main

if __name__ == "__main__":
    main()
