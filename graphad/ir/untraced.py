"""Work of the library's own, at which the tracer of ``check_pass`` does not look.

``check_pass`` notes which lines of a pass run, with ``sys.settrace``. All Python that runs meanwhile takes some three times as long, so
the tracer is off where nothing of the pass can run.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager

MODULES = "modules_of_passes"  # the attribute in which a tracer says whose code it looks at


@contextmanager
def untraced(modules: Collection[str] = ()) -> Iterator[None]:
    """Within it no pass is traced, unless its code is in one of these modules; any other tracer, a debugger's for instance, stays."""
    tracer = sys.gettrace()
    watched: frozenset[str] | None = getattr(tracer, MODULES, None)
    if watched is None or not watched.isdisjoint(modules):
        yield
        return
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)
