"""The networks that tests of real models run, fetched once and kept: RapidOCR's, as Paddle and as ONNX have them, and small ONNX models.

    python -m tests.interop.fetching FOLDER      says where each of them is, as lines to be exported: VARIABLE=FOLDER

What cannot be fetched (without a network, say) is no error: the reason is printed, and the tests of it are skipped.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.interop import models, onnx_corpus

SMALL = ("basic-pitch==0.4.0", "faster-whisper==1.2.1", "magika==1.0.3", "surfaces-onnx-files==0.0.1")
DONE = "complete"  # a file that a folder has when all of it is there


def kept(folder: Path, fetch: Callable[[Path], object]) -> bool:
    """Whether a folder has what was fetched, now or before."""
    if (folder / DONE).exists():
        return True
    folder.mkdir(parents=True, exist_ok=True)
    try:
        fetch(folder)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"{folder.name} are not fetched, and their tests are skipped: {error}", file=sys.stderr)
        return False
    (folder / DONE).touch()
    return True


def main(folder: Path) -> None:
    networks, small = folder / "networks", folder / "onnx-models"
    if kept(networks, models.download):
        print(f"{models.VARIABLE}={networks}")
    if kept(small, lambda into: onnx_corpus.fetch(into, SMALL, timeout=300)):
        print(f"{onnx_corpus.VARIABLE}={small}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]).resolve())
