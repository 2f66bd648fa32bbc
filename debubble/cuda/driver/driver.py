"""CUDA's driver: a few functions of its library that PyTorch doesn't expose."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
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
"""The argument types of each driver function that is called here; addresses are numbers. An old
driver may lack some of the functions."""


class DriverError(RuntimeError):
    """An error of a driver function; `name` is the driver's name for it, such as
    CUDA_ERROR_INVALID_VALUE."""

    def __init__(self, function: str, name: str, reason: str) -> None:
        super().__init__(f"{function}: {name}, {reason}")
        self.name, self.reason = name, reason


class Driver:
    """The driver, used in every thread in the CUDA context of the thread that made it. Unlike an
    error of CUDA's runtime, an error here does not appear again at PyTorch's next kernel launch."""

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

    def function(self, name: str) -> Callable[..., int]:
        """Returns the driver function `name` as it is: enter a context before a call, and check its
        result."""
        return getattr(self._library, name)

    def has(self, name: str) -> bool:
        return hasattr(self._library, name)

    def check(self, name: str, result: int) -> None:
        """Raises DriverError if `result`, which the driver function `name` returned, is not
        success."""
        if result:
            texts = (self._text(f"cuGetError{what}", result) for what in ("Name", "String"))
            raise DriverError(name, *texts)

    def enter_context(self) -> None:
        """Sets this driver's CUDA context in a thread that has none, as a thread that has not used
        CUDA yet. The driver's functions need a context."""
        if hasattr(self._threads, "has_context"):
            return
        if self._current_context() is None:
            self.check("cuCtxSetCurrent", self._library.cuCtxSetCurrent(self._context))
        self._threads.has_context = True

    @property
    def version(self) -> int:
        """The version of CUDA that the driver supports, such as 13000 for CUDA 13.0."""
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
