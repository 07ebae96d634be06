"""Functions of ``graphad.ops`` that have a form of their own over ``jax.numpy``, by the function: one file a subject.

    @replaces(conv.correlated)                     what a kernel calls, or a kernel itself
    def _correlated(x, filter, window_axes, groups): ...

Most kernels need none: they run as they are on ``XlaArray``. What is here does one of four things that XLA cannot do, or does slowly: it
looks at values (a check, a choice, how many steps to take), lays out memory (windows by strides), calls what ``jax.numpy`` has not, or
writes the same place twice. What a kernel computes is said in ``graphad.ops``.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
