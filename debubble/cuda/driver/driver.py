"""CUDA's driver, for what PyTorch doesn't hand on: a few functions of its library."""

from __future__ import annotations

import ctypes
import threading
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p

LIBRARY = "libcuda.so.1"

FUNCTIONS: dict[str, tuple[type[ctypes._CDataType], ...]] = {
    "cuCtxGetCurrent": (POINTER(c_void_p),),
    "cuCtxSetCurrent": (c_void_p,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuMemcpyAsync": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuMemcpyBatchAsync": (
        *[c_void_p] * 3,
        c_size_t,
        c_void_p,
        c_void_p,
        c_size_t,
        *[c_void_p] * 2,
    ),
    "cuMemHostRegister_v2": (c_uint64, c_size_t, c_uint),
    "cuMemHostUnregister": (c_uint64,),
    "cuPointerGetAttribute": (c_void_p, c_int, c_uint64),
}
"""What each takes; addresses are numbers. An old driver may lack some of them."""


class DriverError(RuntimeError):
    """What a function of the driver refused; `name` is the driver's, CUDA_ERROR_INVALID_VALUE."""

    def __init__(self, function: str, name: str, reason: str) -> None:
        super().__init__(f"{function}: {name}, {reason}")
        self.name, self.reason = name, reason


class Driver:
    """Works in every thread in the CUDA context of the thread that makes it. Unlike those of
    CUDA's runtime, an error here is not met again by PyTorch's next kernel launch."""

    def __init__(self, library: ctypes.CDLL | None = None) -> None:
        self._library = ctypes.CDLL(LIBRARY) if library is None else library
        for name, arguments in FUNCTIONS.items():
            if self.has(name):
                function = getattr(self._library, name)
                function.argtypes, function.restype = arguments, c_int
        self._context = self._current_context()
        self._threads = threading.local()

    def call(self, name: str, *arguments: object) -> None:
        self.enter_context()
        self.check(name, getattr(self._library, name)(*arguments))

    def has(self, name: str) -> bool:
        return hasattr(self._library, name)

    def check(self, name: str, result: int) -> None:
        """DriverError for any result of a function but success."""
        if result:
            texts = (self._text(f"cuGetError{what}", result) for what in ("Name", "String"))
            raise DriverError(name, *texts)

    def enter_context(self) -> None:
        """The driver's functions want a context, which a thread that did nothing with CUDA yet
        doesn't have."""
        if getattr(self._threads, "has_context", False):
            return
        if self._current_context() is None:
            self.check("cuCtxSetCurrent", self._library.cuCtxSetCurrent(self._context))
        self._threads.has_context = True

    @property
    def version(self) -> int:
        """13000 for the driver of CUDA 13.0."""
        version = c_int()
        self.check("cuDriverGetVersion", self._library.cuDriverGetVersion(ctypes.byref(version)))
        return version.value

    def _current_context(self) -> int | None:
        context = c_void_p()
        self.check("cuCtxGetCurrent", self._library.cuCtxGetCurrent(ctypes.byref(context)))
        return context.value

    def _text(self, function: str, result: int) -> str:
        text = c_char_p()
        getattr(self._library, function)(result, ctypes.byref(text))
        return text.value.decode() if text.value else f"error {result}"
