"""cuMemcpyBatchAsync: many copies in one call, through cuda-bindings."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from .driver import Driver


class BatchCopy:
    """`bindings` is cuda.bindings.driver."""

    def __init__(self, bindings: ModuleType, driver: Driver) -> None:
        self._bindings, self._driver = bindings, driver
        orders = bindings.CUmemcpySrcAccessOrder
        self._in_stream_order = self._reading(orders.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM)
        self._in_any_order = self._reading(orders.CU_MEMCPY_SRC_ACCESS_ORDER_ANY)

    @classmethod
    def available(cls, driver: Driver) -> BatchCopy | None:
        """None without cuda-bindings, or where they or the driver are older than the call, which
        came with CUDA 12.8 and has another form since 13.0."""
        try:
            from cuda.bindings import __version__
            from cuda.bindings import driver as bindings
        except ImportError:
            return None
        oldest = 12080 if __version__.startswith("12.") else 13000
        if driver.version < oldest or not hasattr(bindings, "cuMemcpyBatchAsync"):
            return None
        return cls(bindings, driver)

    def __call__(
        self,
        sources: np.ndarray,
        targets: np.ndarray,
        sizes: np.ndarray,
        stream: int,
        any_order: bool,
    ) -> None:
        """`sources`, `targets`, `sizes`: int64 [N], N > 0; `stream` is CUDA's, by its address."""
        pointer = self._bindings.CUdeviceptr
        self._driver.enter_context()
        # What follows the result is the index that failed, in some versions, or None.
        result, *_ = self._bindings.cuMemcpyBatchAsync(
            list(map(pointer, targets.tolist())),
            list(map(pointer, sources.tolist())),
            sizes.tolist(),
            len(sizes),
            [self._in_any_order if any_order else self._in_stream_order],
            [0],
            1,
            self._bindings.CUstream(stream),
        )
        self._driver.check("cuMemcpyBatchAsync", int(result))

    def _reading(self, order: object) -> object:
        attributes = self._bindings.CUmemcpyAttributes()
        attributes.srcAccessOrder = order
        return attributes
