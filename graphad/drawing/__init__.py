"""Drawings of programs, graphs and rules with Graphviz: SVG, PDF, PNG or DOT, the same bytes for the same graph.

Here belongs what pictures show and how they look. Nothing here changes a program or a graph; the page of ``graphad view`` is in
``graphad.viewing``.
"""

from graphad.drawing.changes import draw_diff, draw_steps
from graphad.drawing.groups import Groups
from graphad.drawing.options import Options
from graphad.drawing.pictures import draw, draw_pair, repr_svg, to_dot, to_svg
from graphad.drawing.render import find_renderer
from graphad.drawing.rule_pictures import draw_rule, rule_graphs
from graphad.drawing.theme import DARK, LIGHT, Look, Theme

__all__ = [
    "DARK",
    "LIGHT",
    "Groups",
    "Look",
    "Options",
    "Theme",
    "draw",
    "draw_diff",
    "draw_pair",
    "draw_rule",
    "draw_steps",
    "find_renderer",
    "repr_svg",
    "rule_graphs",
    "to_dot",
    "to_svg",
]
