"""``python -m graphad``: the command line."""

import sys

from graphad.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
