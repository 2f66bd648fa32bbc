"""The calls of CUDA's driver, tested without a driver on a fake library."""

import ctypes
import threading

import numpy as np
import pytest

from debubble.contract.addresses import extent_of
from debubble.cuda.driver.addresses import MEMORY_TYPE, RANGE_SIZE, RANGE_START, Addresses
from debubble.cuda.driver.batch_copy import BatchCopy
from debubble.cuda.driver.byte_copies import ByteCopies
from debubble.cuda.driver.driver import FUNCTIONS, Driver, DriverError

CONTEXT = 77
INVALID = 1
MEMORY = {0x1000: (1, 0x1000, 4096), 0x9000: (2, 0x8000, 8192), 0x5000: (4, 0x5000, 16)}
"""The fake driver's memory, by address: its type, the start of its range, and the range's bytes."""


class Library:
    """A fake libcuda that notes every call."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []
        self.contexts = threading.local()
        self.contexts.current = CONTEXT
        self.version = 13010
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
        into._obj.value = self.version
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


ATTRIBUTES = np.dtype([("source_order", "i4"), ("hints", "i4", 4), ("flags", "u4")])
LISTS = np.array([[10, 20], [30, 40], [5, 6]])
PIECES = (*(row.ctypes.data for row in LISTS), 2)


def numbers_at(address, count) -> list[int]:
    return (ctypes.c_int64 * count).from_address(address)[:]


@pytest.mark.parametrize(("any_order", "order"), [(False, 1), (True, 3)])
def test_a_batch_is_handed_over_as_the_lists_that_there_are(library, driver, any_order, order):
    BatchCopy(driver)(*PIECES, 99, any_order)
    name, targets, sources, sizes, count, attributes, firsts, n, failed, stream = library.calls[-1]
    lists = [numbers_at(address, count) for address in (targets, sources, sizes)]
    assert (name, lists) == ("cuMemcpyBatchAsync", [[30, 40], [10, 20], [5, 6]])
    assert (stream, n, firsts._obj.value, failed._obj.value) == (99, 1, 0, 0)
    said = np.frombuffer(attributes._obj, ATTRIBUTES)[0]
    assert (said["source_order"], said["flags"]) == (order, 0)
    assert said["hints"].tolist() == [0] * 4


def test_a_batch_that_is_refused_says_why(library, driver):
    library._cuMemcpyBatchAsync = lambda *_: INVALID
    with pytest.raises(RuntimeError, match="cuMemcpyBatchAsync: CUDA_ERROR_INVALID_VALUE"):
        BatchCopy(driver)(*PIECES, 99, False)


@pytest.mark.parametrize(("version", "there"), [(12060, False), (12080, True), (13010, True)])
def test_there_is_a_batch_copy_from_cuda_12_8_on(library, driver, version, there):
    library.version = version
    assert (BatchCopy.available(driver) is not None) == there


def test_a_library_without_the_call_has_no_batch_copy(library):
    del library.cuMemcpyBatchAsync
    assert BatchCopy.available(Driver(library)) is None


def test_lists_go_to_the_driver_as_they_are(library, driver):
    copies = ByteCopies(driver, 0)
    copies._raw_stream = {0: 99}.__getitem__
    copies.copy_lists(*PIECES, any_order=True)
    name, targets, sources, sizes, count, *_, stream = library.calls[-1]
    assert (name, sources, targets, sizes, count, stream) == ("cuMemcpyBatchAsync", *PIECES, 99)
    copies._raw_stream = {0: 0}.__getitem__
    with pytest.raises(RuntimeError, match="default stream: enter a stream first"):
        copies.copy_lists(*PIECES, any_order=True)


@pytest.mark.parametrize("sizes", [[], [8], [8, 8, 8], [0, 0], [8, 0, 24], [-8, -8], [2**62, 1]])
def test_the_extent_of_sizes_is_what_numpy_says(sizes):
    array = np.array(sizes, dtype=np.int64)
    expected = (sum(sizes), min(sizes, default=0), max(sizes, default=0))
    assert extent_of(array) == extent_of(np.repeat(array, 2)[::2]) == expected
