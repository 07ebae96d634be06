"""Widths of text: enough room for whichever of the usual sans-serif fonts a reader has."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

# Per thousand of the size, for the characters from the space to the tilde: the wider of DejaVu Sans and the metrics of Helvetica
# (Arial, Liberation Sans), so that text fits whatever stands in for the font.
_WIDTHS = (
    *(318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636, 636, 636, 636, 636, 636),
    *(337, 337, 838, 838, 838, 556, 1015, 684, 686, 722, 770, 667, 611, 778, 752, 295, 500, 667, 557, 863, 748, 787, 667, 787, 722, 667),
    *(611, 732, 684, 989, 685, 667, 685, 390, 337, 390, 838, 556, 500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974),
    *(634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838),
)
_HELVETICA = (
    *(278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556, 556, 556, 556),
    *(278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667),
    *(611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833),
    *(556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584),
)
_WIDE, _OTHER = 1000, 850
BOLDER = 1.13  # what a bold text is wider


def text_width(text: str, size: float, bold: bool = False) -> float:
    """The room that a line of text needs, in points.

    >>> text_width("mul", 10) < text_width("matmul", 10) < text_width("日本語の名前", 10)
    True
    """
    return sum(map(_width, text)) * size / 1000 * (BOLDER if bold else 1)


def helvetica_width(text: str, size: float) -> float:
    """How wide a line of text is in Helvetica itself, in points."""
    places = (ord(char) - 32 for char in text)
    return sum(_HELVETICA[place] if 0 <= place < len(_HELVETICA) else 556 for place in places) * size / 1000


@lru_cache(maxsize=4096)
def _width(char: str) -> int:
    place = ord(char) - 32
    if 0 <= place < len(_WIDTHS):
        return _WIDTHS[place]
    # Marks that are drawn over the character before them.
    if unicodedata.combining(char) or unicodedata.category(char) in ("Cf", "Mn"):
        return 0
    return _WIDE if unicodedata.east_asian_width(char) in "WF" else _OTHER
