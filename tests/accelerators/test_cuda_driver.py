"""How CUDA's driver is called; tried here without one, on a library that plays it."""

import sys
import threading
from enum import IntEnum
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from debubble.cuda.driver.addresses import MEMORY_TYPE, RANGE_SIZE, RANGE_START, Addresses
from debubble.cuda.driver.batch_copy import BatchCopy
from debubble.cuda.driver.driver import FUNCTIONS, Driver, DriverError

CONTEXT = 77
INVALID = 1
MEMORY = {0x1000: (1, 0x1000, 4096), 0x9000: (2, 0x8000, 8192), 0x5000: (4, 0x5000, 16)}
"""By address: the type of its memory, the start of its range and the bytes of it."""


class Library:
    """Answers as libcuda does, and keeps every call."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []
        self.contexts = threading.local()
        self.contexts.current = CONTEXT
        for name in FUNCTIONS:
            setattr(self, name, Function(self, name))

    def answer(self, name: str, *arguments) -> int:
        self.calls.append((name, *arguments))
        return getattr(self, f"_{name}", lambda *_: 0)(*arguments)

    def _cuCtxGetCurrent(self, into) -> int:
        into._obj.value = getattr(self.contexts, "current", None)
        return 0

    def _cuCtxSetCurrent(self, context) -> int:
        self.contexts.current = context
        return 0

    def _cuDriverGetVersion(self, into) -> int:
        into._obj.value = 13010
        return 0

    def _cuGetErrorName(self, result, into) -> int:
        into._obj.value = b"CUDA_ERROR_INVALID_VALUE"
        return 0

    def _cuGetErrorString(self, result, into) -> int:
        into._obj.value = b"invalid argument"
        return 0

    def _cuMemcpyAsync(self, target, source, nbytes, stream) -> int:
        has_context = getattr(self.contexts, "current", None) == CONTEXT
        return 0 if target and has_context else INVALID

    def _cuPointerGetAttribute(self, into, attribute, address) -> int:
        if address not in MEMORY:
            return INVALID
        order = {MEMORY_TYPE: 0, RANGE_START: 1, RANGE_SIZE: 2}
        into._obj.value = MEMORY[address][order[attribute]]
        return 0


class Function:
    def __init__(self, library: Library, name: str) -> None:
        self.library, self.name = library, name

    def __call__(self, *arguments) -> int:
        assert len(arguments) == len(self.argtypes)
        return self.library.answer(self.name, *arguments)


@pytest.fixture
def library():
    return Library()


@pytest.fixture
def driver(library):
    return Driver(library)


def test_an_error_says_the_function_and_the_drivers_reason(driver):
    with pytest.raises(DriverError) as caught:
        driver.call("cuMemcpyAsync", 0, 5, 8, 0)
    assert str(caught.value) == "cuMemcpyAsync: CUDA_ERROR_INVALID_VALUE, invalid argument"
    assert isinstance(caught.value, RuntimeError)


def test_a_new_thread_works_in_the_same_context(library, driver):
    errors = []

    def work():
        for _ in range(2):
            try:
                driver.call("cuMemcpyAsync", 4, 5, 8, 0)
            except DriverError as error:
                errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert errors == []
    assert [call for call in library.calls if call[0] == "cuCtxSetCurrent"] == [
        ("cuCtxSetCurrent", CONTEXT),
    ]


def test_the_driver_says_whose_an_address_is(driver):
    addresses = Addresses(driver)
    assert addresses.memory_at(0x1000) == ("pinned", 0x1000, 4096)
    assert addresses.memory_at(0x9000) == ("device", 0x8000, 8192)
    assert addresses.memory_at(0x5000) == ("device", 0x5000, 16), "managed memory"
    assert addresses.memory_at(0x3000) is None
    assert addresses.memory_at(0) is None


def test_memory_is_registered_for_every_context_and_for_kernels(library, driver):
    addresses = Addresses(driver)
    addresses.register(0x4000, 4096)
    addresses.unregister(0x4000)
    assert library.calls[-2:] == [
        *(("cuMemHostRegister_v2", 0x4000, 4096, 1 | 2), ("cuMemHostUnregister", 0x4000)),
    ]


def test_what_was_registered_in_parts_is_one_range(driver):
    addresses = Addresses(driver)
    addresses.register(0x2000, 0x1000)
    addresses.register(0x0F00, 0x100)
    assert addresses.memory_at(0x1000) == ("pinned", 0x0F00, 0x2100)
    addresses.unregister(0x2000)
    assert addresses.memory_at(0x1000) == ("pinned", 0x0F00, 0x1100)
    addresses.unregister(0x0F00)
    assert addresses.memory_at(0x1000) == ("pinned", 0x1000, 0x1000)


def test_half_a_tebibyte_is_refused_before_the_driver_sees_it(library, driver):
    with pytest.raises(RuntimeError, match="512 GiB"):
        Addresses(driver).register(0x4000, 512 << 30)
    Addresses(driver).register(0x4000, (512 << 30) - 4096)
    registered = [call for call in library.calls if call[0].startswith("cuMemHostRegister")]
    assert [call[2] for call in registered] == [(512 << 30) - 4096]


class Result(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = INVALID


class Bindings:
    """cuda.bindings.driver, as far as a batch needs it."""

    CUmemcpySrcAccessOrder = SimpleNamespace(
        CU_MEMCPY_SRC_ACCESS_ORDER_STREAM="stream", CU_MEMCPY_SRC_ACCESS_ORDER_ANY="any"
    )

    class CUmemcpyAttributes:
        srcAccessOrder = None

    class CUdeviceptr(int):
        pass

    class CUstream(int):
        pass

    def __init__(self, *answer) -> None:
        self.answer = answer

    def cuMemcpyBatchAsync(self, targets, sources, sizes, count, attributes, firsts, n, stream):
        assert {type(address) for address in targets + sources} == {self.CUdeviceptr}
        assert {type(size) for size in sizes} == {int}
        assert (type(stream), firsts, n, len(attributes)) == (self.CUstream, [0], 1, 1)
        self.call = (targets, sources, sizes, count, attributes[0].srcAccessOrder, stream)
        return self.answer


PIECES = (np.array([10, 20]), np.array([30, 40]), np.array([5, 6]))


@pytest.mark.parametrize("any_order", [False, True])
def test_a_batch_is_handed_over_as_the_drivers_own_types(driver, any_order):
    bindings = Bindings(Result.CUDA_SUCCESS)
    BatchCopy(bindings, driver)(*PIECES, 99, any_order)
    order = "any" if any_order else "stream"
    assert bindings.call == ([30, 40], [10, 20], [5, 6], 2, order, 99)


@pytest.mark.parametrize("index_that_failed", [(), (None,), (1,)])
def test_a_batch_that_is_refused_says_why(driver, index_that_failed):
    bindings = Bindings(Result.CUDA_ERROR_INVALID_VALUE, *index_that_failed)
    with pytest.raises(RuntimeError, match="cuMemcpyBatchAsync: CUDA_ERROR_INVALID_VALUE"):
        BatchCopy(bindings, driver)(*PIECES, 99, False)


def installed(monkeypatch, version: str, bindings: object) -> None:
    package = ModuleType("cuda.bindings")
    package.__version__, package.driver = version, bindings
    monkeypatch.setitem(sys.modules, "cuda", ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.bindings", package)


@pytest.mark.parametrize(
    ("bindings", "driver_version", "there"),
    [
        ("13.3.1", 13000, True),
        ("13.0.0", 12090, False),
        ("12.9.4", 12080, True),
        ("12.8.0", 12060, False),
        ("12.9.4", 13010, True),
    ],
)
def test_there_is_a_batch_copy_if_the_driver_has_the_form_that_the_bindings_call(
    monkeypatch, bindings, driver_version, there
):
    installed(monkeypatch, bindings, Bindings())
    found = BatchCopy.available(SimpleNamespace(version=driver_version))
    assert (found is not None) == there


def test_bindings_older_than_the_call_have_no_batch_copy(monkeypatch, driver):
    installed(monkeypatch, "12.6.2", SimpleNamespace())
    assert BatchCopy.available(driver) is None


def test_without_bindings_there_is_no_batch_copy(monkeypatch, driver):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    assert BatchCopy.available(driver) is None
