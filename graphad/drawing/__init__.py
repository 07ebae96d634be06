"""Drawings of programs, graphs and rules with Graphviz: SVG, PNG or DOT, the same bytes for the same graph.

Here belongs what pictures show and how they look. Nothing here changes a program or a graph; the page of ``graphad view`` is in
``graphad.viewing``.
"""

from graphad.drawing.pictures import draw, draw_pair, repr_svg, to_dot, to_svg
from graphad.drawing.render import find_renderer
from graphad.drawing.rule_pictures import draw_rule, rule_graphs

__all__ = ["draw", "draw_pair", "draw_rule", "find_renderer", "repr_svg", "rule_graphs", "to_dot", "to_svg"]
