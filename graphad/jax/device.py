"""A scope whose variables stay on the device: copied back when they are read.

scope.arrays = {"w": numpy array}      ⇒      OnDevice: "w" is jax's array until it is read
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import jax
import numpy as np

from graphad.execution import Scope
from graphad.types import Array, Tensor


class OnDevice(dict[str, Array]):
    """The arrays of a scope; each may be on the device, here, or both."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        super().__init__(arrays)
        self._device: dict[str, tuple[Tensor, object]] = {}  # and the copy that is here

    def put(self, arrays: Mapping[str, Tensor]) -> None:
        """Variables as a run left them."""
        for name, value in arrays.items():
            super().__setitem__(name, value)
            if isinstance(value, jax.Array):
                self._device[name] = value, value
            else:
                self._device.pop(name, None)

    def device(self, name: str) -> Tensor | None:
        """The variable on the device, None if it is not there, or was set since."""
        entry = self._device.get(name)
        # Whoever sets the variable puts another object in: then the device's copy is out of date. A donated array is deleted.
        return entry[0] if entry is not None and super().get(name) is entry[1] and not entry[0].is_deleted() else None

    def raw(self, name: str) -> Tensor:
        """The variable, wherever it is."""
        return super().__getitem__(name)

    def __getitem__(self, name: str) -> Array:
        value: Tensor = super().__getitem__(name)
        if isinstance(value, jax.Array):
            # Copied to the host once; what is on the device stays known for the next run.
            array = np.array(value)
            super().__setitem__(name, array)
            self._device[name] = value, array
            return array
        return value

    def __iter__(self) -> Iterator[str]:  # so that dict(...) and {**...} ask for the arrays
        return super().__iter__()

    def get(self, name: str, default: Tensor = None) -> Tensor:
        return self[name] if name in self else default  # noqa: SIM401 - this is get

    def values(self) -> Tensor:
        return self.copy().values()

    def items(self) -> Tensor:
        return self.copy().items()

    def copy(self) -> dict[str, Array]:
        return {name: self[name] for name in self}

    def pop(self, name: str, default: Tensor = None) -> Tensor:
        value = self.get(name, default)
        super().pop(name, None)
        return value


def on_device(scope: Scope) -> OnDevice:
    """The arrays of a scope, which may stay on the device from now on."""
    if not isinstance(scope.arrays, OnDevice):
        scope.arrays = OnDevice(scope.arrays)
    return scope.arrays
