"""Pages to work in: a program in the browser, pass by pass and rewrite by rewrite.

    Recorder ──▶ States, Tables ──▶ JSON ──▶ one HTML file        recording, states, tables, page
                                              ▲ viewer.js, built from viewer/ (TypeScript)

Here belongs what a page stores of graphs and passes; how it is shown is the program of the page, in ``viewer``.
"""

from __future__ import annotations

from graphad.viewing.page import Page, record, view

__all__ = ["Page", "record", "view"]
