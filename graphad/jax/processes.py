"""Several processes whose devices make one mesh: they begin together, and what ends one with an error ends all, soon, with that error.

    process 0 ─▶ connect("10.0.0.1:8476", 2, 0) ─┐
    process 1 ─▶ connect("10.0.0.1:8476", 2, 1) ─┴─▶ sharded(program, [loss]) on the devices of both

``jax.distributed`` alone leaves the others in a collective until its own timeouts, which are minutes, and does not tell them why.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import jax
from jax._src.distributed import global_state  # which has the store that processes share; jax shows it nowhere else

from graphad.errors import InvalidValue

FAULT = "graphad/fault"  # in the store of jax.distributed: what the first process that failed says
LOOK = 0.5  # seconds between looks for it
GRACE = 2.0  # seconds in which the others see it before the process ends that says it, as it may be the one that has the store

Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


def connect(coordinator: str, processes: int, number: int, *, timeout: int = 6) -> None:
    """Join the processes whose devices make one mesh; before anything else is done with JAX.

    An error that nothing catches in one of them is shown by all, with its number, and ends all; so does, within ``timeout`` seconds or a
    few more, the death of one. Otherwise this is ``jax.distributed.initialize``, with gloo for what CPUs send.

    Args:
        coordinator: address and port of process 0, which all can reach.
        processes: how many there are.
        number: that of this process, from 0 on.
        timeout: seconds without a sign of life after which a process counts as dead.

    Raises:
        ValueError: a number is out of range.
        RuntimeError: (JAX's) the others do not come, or the process has joined before.
    """
    if processes < 1 or not 0 <= number < processes or timeout < 1:
        raise InvalidValue(f"processes are numbered from 0, and a timeout is 1 second at least: {number} of {processes}, {timeout} seconds")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(coordinator, processes, number, heartbeat_timeout_seconds=timeout)
    threading.Thread(target=_watch, args=(number,), daemon=True).start()
    sys.excepthook = _telling(number, sys.excepthook)


def _telling(number: int, shown: Hook) -> Hook:
    """An exception hook that shows an uncaught error, reports it to the other processes, and ends this one."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        shown(kind, error, trace)
        sys.stderr.flush()
        if global_state.client is not None:
            global_state.client.key_value_set(FAULT, f"process {number} failed: {kind.__name__}: {error}", allow_overwrite=True)
            time.sleep(GRACE)
        # The ordinary end of the process would wait for the others, which wait in a collective.
        os._exit(1)

    return hook


def _watch(number: int) -> None:
    """Look whether another process has failed, as long as this one runs; then say so, and end it, though it may be in a collective."""
    while (client := global_state.client) is not None:
        try:
            text = client.key_value_try_get(FAULT)
        except jax.errors.JaxRuntimeError:  # there is none, or process 0 has ended, which jax.distributed sees itself
            time.sleep(LOOK)
            continue
        if not text.startswith(f"process {number} "):
            print(text, file=sys.stderr, flush=True)
            time.sleep(2 * GRACE if number == 0 else 0)  # process 0 has the store, and ends last
            os._exit(1)
        return


__all__ = ["connect"]
