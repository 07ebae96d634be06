"""Colors: a look for each kind of node, light and dark, and the scale of an overlay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from graphad.errors import InvalidType, InvalidValue
from graphad.program import BACKWARD, FORWARD, OPTIMIZE


class Look(NamedTuple):
    """The text in the legend, fill and line color, and the number of outlines."""

    text: str
    fill: str
    line: str
    rings: int = 1


class Change(NamedTuple):
    """The legend's text for a mark of a difference, and its color."""

    text: str
    color: str


ADDED, REMOVED, CHANGED = "added", "removed", "changed"

# In the order of the legend. The colors keep their distance for color-blind readers too. A number counts orders of gradients.
_LIGHT_LOOKS = {
    FORWARD: Look("forward operator", "#cfe3f7", "#2f6ea8"),
    BACKWARD: Look("backward operator", "#fbdcc0", "#bf5f12"),
    f"{BACKWARD}2": Look("backward of order 2", "#f2b795", "#96380e"),
    f"{BACKWARD}3": Look("backward of order 3 or more", "#eba998", "#6d1a0e"),
    OPTIMIZE: Look("optimizer operator", "#d9d2ee", "#6a4fae"),
    "data": Look("data", "#fdf3b9", "#a58a12"),
    "parameter": Look("parameter", "#d5ebd0", "#3c8540", 2),
    "state": Look("kept between runs", "#e7e9ec", "#676e79", 2),
    "variable": Look("variable", "#ffffff", "#676e79"),
    "gradient": Look("gradient", "#fff6ee", "#bf5f12"),
    "gradient2": Look("gradient of order 2", "#fbe6da", "#96380e"),
    "gradient3": Look("gradient of order 3 or more", "#f3d2ca", "#6d1a0e"),
}
_DARK_LOOKS = {
    FORWARD: Look("forward operator", "#1d3a57", "#6fb1ea"),
    BACKWARD: Look("backward operator", "#53300f", "#f0a35c"),
    f"{BACKWARD}2": Look("backward of order 2", "#69300f", "#f28a55"),
    f"{BACKWARD}3": Look("backward of order 3 or more", "#742519", "#f57a66"),
    OPTIMIZE: Look("optimizer operator", "#3a2f63", "#b3a0f2"),
    "data": Look("data", "#45400f", "#d6c24a"),
    "parameter": Look("parameter", "#1f4423", "#7ccb82", 2),
    "state": Look("kept between runs", "#33383f", "#a4acb8", 2),
    "variable": Look("variable", "#1b1e23", "#a4acb8"),
    "gradient": Look("gradient", "#2e2217", "#f0a35c"),
    "gradient2": Look("gradient of order 2", "#3a2013", "#f28a55"),
    "gradient3": Look("gradient of order 3 or more", "#431c15", "#f57a66"),
}

_CHANGES = {
    ADDED: Change("added", "#1a7f37"),
    REMOVED: Change("removed", "#8a8f98"),
    CHANGED: Change("changed", "#b8860b"),
}
_DARK_CHANGES = {
    ADDED: Change("added", "#56d364"),
    REMOVED: Change("removed", "#7d8590"),
    CHANGED: Change("changed", "#e3b341"),
}


@dataclass(frozen=True)
class Theme:
    """The colors of drawings; a theme of your own is made of another: ``LIGHT.with_colors(background="none")``.

    Attributes:
        background: behind everything; ``"none"`` is transparent.
        ink, muted: text, and what matters less.
        strong: outlines of what is highlighted.
        link: lines from gradients to what they are gradients of.
        looks: fill and line of each kind of node.
        changes: colors of what was added, removed and changed.
        frame: how much of its line a frame is filled with, 0 to 1.
        fonts: names of fonts, as in CSS.
    """

    background: str = "#ffffff"
    ink: str = "#2b2f36"
    muted: str = "#676e79"
    strong: str = "#d6005c"
    link: str = "#c4a184"
    frame: float = 0.06
    looks: Mapping[str, Look] = field(default_factory=lambda: _LIGHT_LOOKS)
    changes: Mapping[str, Change] = field(default_factory=lambda: _CHANGES)
    fonts: str = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', 'Noto Sans CJK SC', sans-serif"

    def with_colors(self, looks: Mapping[str, Look] | None = None, **colors: object) -> Theme:
        """The theme with other colors, and other looks for some kinds.

        >>> LIGHT.with_colors(ink="#000000").ink
        '#000000'

        Raises:
            TypeError: a theme has no such attribute.
        """
        return replace(self, looks={**self.looks, **(looks or {})}, **colors)  # type: ignore[arg-type]


LIGHT = Theme()
DARK = Theme("#14161a", "#e6e9ee", "#a4acb8", "#ff5ca0", "#8f7762", 0.10, _DARK_LOOKS, _DARK_CHANGES)
THEMES = {"light": LIGHT, "dark": DARK}


def theme_of(theme: object) -> Theme:
    """A theme, or the one of a name.

    Raises:
        TypeError: it is neither.
        ValueError: there is none of this name.
    """
    if isinstance(theme, Theme):
        return theme
    if not isinstance(theme, str):
        raise InvalidType(f"theme is a Theme or a name ({', '.join(map(repr, THEMES))}), not {theme!r}")
    if theme not in THEMES:
        raise InvalidValue(f"theme is one of {', '.join(map(repr, THEMES))}, or a Theme, not {theme!r}")
    return THEMES[theme]


# -- scale -----------------------------------------------------------------------------------------
# From dark blue to yellow: lightness rises evenly, blue and yellow differ for every kind of color blindness, and it is still a scale
# when printed in gray. The way goes through these points in CIELAB (lightness, green to red, blue to yellow).

_POINTS = ((22.0, 20.0, -48.0), (42.0, 0.0, -28.0), (60.0, -8.0, 2.0), (76.0, -6.0, 42.0), (92.0, -6.0, 72.0))


def scale_color(share: float) -> str:
    """The color for a number from 0 to 1.

    >>> scale_color(0.0), scale_color(1.0)
    ('#002f7d', '#ffe855')
    """
    place = min(max(share, 0.0), 1.0) * (len(_POINTS) - 1)
    i = min(int(place), len(_POINTS) - 2)
    lightness, a, b = (low + (high - low) * (place - i) for low, high in zip(_POINTS[i], _POINTS[i + 1], strict=True))
    return _hex(lightness, a, b)


# Groups have no order, so their colors differ in hue first: those of Okabe and Ito (2008), which color-blind people tell apart, lighter,
# so that dark text is read on them.
GROUP_COLORS = ("#8fc1ea", "#f3c069", "#7fcfb0", "#e3a9cb", "#f09a66", "#e9de72", "#b9a7e6", "#c3cad3")
GROUP_INK = "#16181c"


def group_color(number: int) -> str:
    """The color of a group by its number."""
    return GROUP_COLORS[number % len(GROUP_COLORS)]


def ink_on(share: float) -> str:
    """The color of text on the color for a number."""
    return "#ffffff" if share < 0.45 else "#16181c"


def _hex(lightness: float, a: float, b: float) -> str:
    # From CIELAB by XYZ, with the white D65, to linear sRGB (IEC 61966-2-1).
    y = (lightness + 16) / 116
    x, y, z = (white * _linear(t) for white, t in ((0.9505, y + a / 500), (1.0, y), (1.089, y - b / 200)))
    red = 3.2406 * x - 1.5372 * y - 0.4986 * z
    green = -0.9689 * x + 1.8758 * y + 0.0415 * z
    blue = 0.0557 * x - 0.2040 * y + 1.0570 * z
    return "#" + "".join(f"{round(255 * _gamma(channel)):02x}" for channel in (red, green, blue))


# The inverse of CIELAB's f: a cube, and a straight line near 0.
def _linear(t: float) -> float:
    return t**3 if t > 6 / 29 else 3 * (6 / 29) ** 2 * (t - 4 / 29)


# The transfer function of sRGB.
def _gamma(channel: float) -> float:
    channel = min(max(channel, 0.0), 1.0)
    return 12.92 * channel if channel <= 0.0031308 else 1.055 * channel ** (1 / 2.4) - 0.055
