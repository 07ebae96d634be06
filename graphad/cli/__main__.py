"""``python -m graphad.cli``."""

import sys

from graphad.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
