"""The Python in README.md, docs/ and docs/examples as programs of their own, and the pictures in docs/images that they draw.

python -m tests.pictures        (or ``make pictures``) draws them anew
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs/images"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = {f"{page.name}-{i}": code for page in PAGES for i, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))}
DRAWN = r'ga\.draw(?:_rule|_pair)?\([\w, ]+, "([\w-]+\.svg)"'  # the pictures that a block draws
DIGITS_RNN = ROOT / "docs/examples/digits_rnn.py"


def run(folder: Path, *arguments: str | Path) -> str:
    """What Python prints, run in a folder; a warning is an error."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    done = subprocess.run([sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def main() -> None:
    """Draw all pictures into docs/images."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for code in BLOCKS.values():
            if re.search(DRAWN, code):
                run(folder, "-c", code)
        run(folder, DIGITS_RNN, "--draw", folder)
        for path in sorted(folder.glob("*.svg")):
            print(shutil.copyfile(path, IMAGES / path.name).relative_to(ROOT))


if __name__ == "__main__":
    main()
