"""Tests of the kata `swap_kernel`, each in a process of its own, since a wrong address may end
it."""

import math
from itertools import permutations

import pytest
import torch

import debubble
from debubble.contract.compiles import changes
from debubble.exercises import (
    Common,
    Diagnosis,
    KataFailure,
    Step,
    expect,
    expect_equal,
    guarded_buffer,
)
from debubble.rules.specialization import key_of, parameters_of

pytestmark = pytest.mark.own_process

WORD = 8
SPACE = 128 * 1024
LONG = 64 * 1024
NO_TRITON = (
    "the kata swap_kernel is a Triton kernel, and Triton is not installed here: it needs Linux, "
    "in a container, in WSL 2 or on another host"
)
TAIL = (
    "The last chunk of a piece is seldom full, and the memory after its end belongs to another "
    "request. Mask the load and the store by the words that are left: `lane < size // 8 - first`."
)
SIDES = (
    "Pieces are read at `src_addrs` and written at `dst_addrs`. The three tensors look alike: does "
    "the kernel get them in the order of its parameters?"
)
NOTHING_ARRIVED = (
    "Nothing has arrived at all. Is the number of chunks rounded up, so that a short piece has "
    "one? Does the kernel read the three tensors in the order in which it gets them?"
)
MISSING = (
    "A piece has `size // 8` words. Its last chunk need not be full, so the number of chunks is "
    "rounded up: `-(-size // chunk)` chunks, numbered from 0. A pointer to int64 counts words: "
    "chunk c begins `c * WORDS` further on, in words and not in bytes."
)
ELSEWHERE = (
    "Something was copied to where it does not belong. Does each chunk have the addresses and the "
    "size of its own piece, and is its tail masked by the words that are left? A pointer to int64 "
    "counts words: chunk c begins `c * WORDS` further on, in words and not in bytes."
)
TOO_LARGE = (
    "Triton compiles the kernel again for each new value of a constant, while a request waits. And "
    "a program holds a block in registers: it must be small, and Triton's largest has 2**20 "
    "elements. Give a chunk a fixed number of words, such as 512, and a piece as many chunks as it "
    "needs."
)
NOT_LAUNCHED = (
    "Is the number of chunks rounded up, so that a short piece has one? Sim and recordings don't "
    "see a kernel that is started without `launch` of debubble.accelerator."
)
ONE_BY_ONE = (
    "A launch takes the host a few microseconds, as a copy of the driver does, and for a small "
    "piece that is longer than the link needs. One launch costs the same for any number of pieces: "
    "the kernel reads in `src_addrs`, `dst_addrs` and `sizes` what it has to copy."
)
SPECIALISED = (
    "Triton compiles a kernel again for an integer that is 1, and for one that is a multiple of "
    "16. Numbers of pieces and of chunks change from list to list, and a request waits while the "
    "kernel is compiled. Name such parameters in `@triton.jit(do_not_specialize=[...])`."
)
CHUNK = (
    "The caller chooses how much a program moves at a time: of a chunk that is much larger than "
    "the pieces, most lanes are masked. So a chunk has `bytes_per_chunk // 8` words. Pass this "
    "number as the constant."
)
IN_PLACE = (
    "The kernel can read pinned host memory by itself, so pass it the three tensors as they are. "
    "An upload is one more copy for each list, and the kernel waits for it. From memory that is "
    "not pinned, the host waits for it too."
)
OWN_LIST = (
    "The kernel can read the three pinned tensors as they are. If it gets a list of your own, such "
    "as one of chunks, build the list in pinned memory and upload it by `non_blocking=True`: from "
    "memory that is not pinned, the host waits for the upload."
)
UNTOLD = (
    "Sim can't see what a kernel does with an address. A copy that sim isn't told of takes no "
    "time, and no race is found in it: `ByAddress` of all pieces belongs in `work`."
)
ALONE = (
    "A program runs on one of an H200's 132 multiprocessors, and one of them requests too little "
    "at a time to keep the link busy. Number the chunks of all pieces through, and let program p "
    "of P take chunks p, p + P, p + 2 * P and so on: then long pieces are shared out too."
)
ODD_SIZE = (
    "`size // 8` copies 8 of 12 bytes and reports nothing: the request goes on with 4 wrong bytes "
    "in its KV cache. The host has the sizes before the launch: look at them all."
)
ODD_ADDRESS = (
    "A GPU reads a word of 8 bytes at multiples of 8. At any other address the kernel ends with "
    '"misaligned address", and with it the CUDA context. On sim it would just work: look '
    "at the sources and at the targets before the launch."
)
WHICH = (
    "A list may have thousands of pieces, and the reader of the error has to find the wrong one: "
    "name its number, counted from 0. If several are wrong, name the first, whether its source, "
    "its target or its size is wrong: look at all three before you name one."
)
BEFORE = (
    "If a part of a list is copied, a block is left that is neither the old one nor the new one. "
    "Look at all descriptors before the first word is moved."
)
NONE = (
    "A transfer may have nothing to copy: then launch nothing. A launch of 0 programs is an error "
    "on a GPU, and an empty tensor has no memory that a kernel could be given."
)


@pytest.fixture(autouse=True)
def triton():
    """Skips the test if Triton is missing: not even the exercise itself could be loaded then."""
    pytest.importorskip("triton", reason=NO_TRITON)


def claim(holds, expected, did, why):
    if not holds:
        raise KataFailure(Diagnosis(expected, did, why=why))


def one_after_another(sizes):
    """Returns pieces (offset in the source, offset in the target, bytes), with gaps. Targets are in
    the opposite order, so no piece continues another, and few begin at a multiple of 16."""
    pieces, source, target = [], 0, sum(sizes) + 24 * len(sizes)
    for size in sizes:
        target -= size + 24
        pieces.append((source, target, size))
        source += size + WORD
    return pieces


class Memory:
    """A source in which no two words are alike, and a target of zeros, both between bands that must
    not be written to. One of them is in pinned host memory, the other on the device."""

    def __init__(self, accelerator, is_store=False, nbytes=SPACE):
        self.accelerator = accelerator
        places = ("device", "pinned") if is_store else ("pinned", "device")
        self.source, self.target = (guarded_buffer(accelerator, nbytes, p) for p in places)
        self.content = torch.arange(1, nbytes // WORD + 1)
        self.source.tensor.view(torch.int64).copy_(self.content)
        accelerator.synchronize()

    def columns(self, pieces):
        """Returns three pinned int64 tensors [N]."""
        rows = [
            (self.source.address + source, self.target.address + target, nbytes)
            for source, target, nbytes in pieces
        ]
        columns = torch.tensor(rows, dtype=torch.int64).view(-1, 3).T
        return tuple(column.clone().pin_memory() for column in columns)

    def copy(self, kata, pieces):
        columns = self.columns(pieces)  # They must live until the kernel has read them.
        kata.copy_pieces(*columns)
        self.accelerator.synchronize()

    def expect_copies(self, pieces):
        """Checks the target, and that nothing else was written."""
        target = self.target.tensor.view(torch.int64).cpu()
        right = torch.zeros_like(target)
        for source, to, nbytes in pieces:
            words = nbytes // WORD
            right[to // WORD :][:words] = self.content[source // WORD :][:words]
        listed = words_for(pieces)
        source = self.source.tensor.view(torch.int64).cpu()
        claim(
            not self.source.overrun() and torch.equal(source, self.content),
            expected=f"the source of {listed} to be left as it is",
            did="wrote to it",
            why=SIDES,
        )
        overrun = self.target.overrun().replace("its", "the target's")
        claim(
            not overrun,
            expected=f"{listed} to be copied, and nothing else to be written",
            did=overrun,
            why=TAIL,
        )
        value = f"the target of {listed}, in words, with 0 where nothing should be copied,"
        expect_equal(target, right, value=value, likely=cause)


def cause(target, right):
    wrong = target != right
    misses, exceeds = bool(wrong[right != 0].any()), bool(wrong[right == 0].any())
    if not target.any():
        return NOTHING_ARRIVED
    if not misses:
        return TAIL
    return ELSEWHERE if exceeds else MISSING


def words_for(pieces):
    """Returns what a failing test calls the pieces."""
    sizes = [nbytes for *_, nbytes in pieces]
    if len(pieces) == 1:
        return f"a piece of {sizes[0]} bytes"
    return f"pieces of {sizes} bytes" if len(sizes) < 6 else f"{len(sizes)} pieces"


@pytest.mark.parametrize(
    "sizes",
    [
        [8],
        [4104],
        [10_000],
        [16, 4096, 8, 8200, 24],
        [64 * (1 + i % 3) for i in range(17)],
        [0, 72, 0],
    ],
    ids=lambda sizes: f"{len(sizes)}x{sizes[0]}" if len(sizes) > 1 else f"{sizes[0]}",
)
def test_each_piece_arrives(kata, accelerator, sizes):
    memory, pieces = Memory(accelerator), one_after_another(sizes)
    memory.copy(kata, pieces)
    memory.expect_copies(pieces)


@pytest.mark.parametrize("size", [8, 520, 4104])
def test_nothing_is_written_behind_the_end(kata, accelerator, size):
    """The last piece ends exactly at the end of the target."""
    memory = Memory(accelerator, nbytes=2 * size)
    pieces = [(0, size, size)]
    memory.copy(kata, pieces)
    memory.expect_copies(pieces)


def test_stores_are_pieces_too(kata, accelerator):
    memory = Memory(accelerator, is_store=True)
    # The last piece has the source of the first one.
    pieces = [*one_after_another([4104, 8, 1024]), (0, 16384, 512)]
    memory.copy(kata, pieces)
    memory.expect_copies(pieces)


@pytest.mark.parametrize("pieces", [[], [(0, 0, 0), (8, 64, 0)]], ids=["no pieces", "no bytes"])
def test_nothing_to_copy(kata, accelerator, pieces):
    memory, what = Memory(accelerator), "pieces of no bytes" if pieces else "empty tensors"
    try:
        with debubble.record(accelerator) as timeline:
            memory.copy(kata, pieces)
    except Exception as error:
        text = f"raised {type(error).__name__}: {error}".strip().partition("\n")[0].rstrip(".")
        raise KataFailure(Diagnosis(f"copy_pieces of {what} to return", text, why=NONE)) from error
    kernels = [event for event in timeline.events if event.kind == "kernel"]
    expect(timeline).that(
        not kernels,
        expected=f"copy_pieces of {what} to launch no kernel",
        did=f"launches {len(kernels)}",
        events=kernels,
        why=NONE,
    )
    memory.expect_copies(pieces)


def test_all_pieces_share_one_launch(kata, accelerator, monkeypatch):
    memory, pieces = Memory(accelerator), one_after_another([64] * 12)
    memory.copy(kata, pieces)
    columns = memory.columns(pieces)
    accelerator.synchronize()
    launches = Launches(accelerator, monkeypatch)
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.05)
        kata.copy_pieces(*columns)
    kernels = [event for event in timeline.events if event.kind == "kernel"][1:]
    expect(timeline).that(
        len(kernels) == 1,
        expected="1 kernel for 12 pieces",
        did=f"launches {len(kernels) or 'none'}",
        events=kernels,
        why=ONE_BY_ONE if kernels else NOT_LAUNCHED,
    )
    total = sum(nbytes for *_, nbytes in pieces)
    if accelerator.modelled:
        told = f"tells of {kernels[0].bytes}" if launches.told[-1] else "passes no `work`"
        claim(
            kernels[0].bytes >= total,
            expected=f"`work` to tell sim of the {total} bytes that the kernel copies",
            did=told,
            why=UNTOLD,
        )


def test_the_kernel_reads_the_pinned_descriptors(kata, accelerator):
    memory = Memory(accelerator)
    for sizes in ([64] * 12, [16384, 64, 8]):
        columns = memory.columns(one_after_another(sizes))
        kata.copy_pieces(*columns)
        accelerator.synchronize()
        with debubble.record(accelerator) as timeline:
            kata.copy_pieces(*columns)
        if len({*sizes}) == 1:
            expect(timeline).counts(host_syncs=0, h2d_pageable=0, h2d_pinned=0, why=IN_PLACE)
        expect(timeline).counts(host_syncs=0, h2d_pageable=0, why=OWN_LIST)
        accelerator.synchronize()


class Launches:
    """A record of each launch: its number of programs, its constants, the key under which Triton
    stores the compiled kernel, and the `work` that sim is told of."""

    def __init__(self, accelerator, monkeypatch):
        self.programs, self.constants, self.keys, self.told = [], [], [], []
        self.launch = accelerator.launch
        monkeypatch.setattr(accelerator, "launch", self)

    def __call__(self, kernel, grid, *args, **options):
        self.programs.append(math.prod(grid or ()))
        self.told.append(options.get("work"))
        if hasattr(kernel, "fn"):
            triton_kernel = innermost(kernel)
            parameters = parameters_of(triton_kernel)
            names = [one.name for one in parameters]
            values = dict(zip(names, args, strict=False)) | options
            self.constants.append(
                {one.name: values.get(one.name) for one in parameters if one.is_constant}
            )
            self.keys.append(key_of(triton_kernel, args, options, lambda tensor: 0))
        return self.launch(kernel, grid, *args, **options)


def innermost(kernel):
    """Returns the Triton kernel below all decorators."""
    return innermost(kernel.fn) if hasattr(kernel.fn, "fn") else kernel


def expect_one_compilation(kata, accelerator, monkeypatch, lists, what):
    """Checks that lists, given as {name: pieces}, are copied by one compiled kernel. Returns the
    memory that they were copied in."""
    launches, keys = Launches(accelerator, monkeypatch), {}
    memory = Memory(accelerator, nbytes=2 * LONG)
    for name, pieces in lists.items():
        memory.copy(kata, pieces)
        claim(launches.keys, f"a launch for {name}", "made none", NOT_LAUNCHED)
        keys[name] = launches.keys.pop()
    first, *others = keys
    for name in others:
        differences = changes(keys[first], keys[name])
        claim(
            not differences,
            expected=f"one compiled kernel to copy {what}",
            did=f"has Triton compile it for {first} and again for {name}, because of "
            f"{', and '.join(differences)}",
            why=TOO_LARGE if "the constant" in "".join(differences) else SPECIALISED,
        )
    return memory


def test_a_piece_may_have_any_length(kata, accelerator, monkeypatch):
    lists = {f"a piece of {size} bytes": [(0, 0, size)] for size in (LONG, 2 * LONG)}
    what = " and one of ".join(lists).replace("one of a piece of", "one of")
    memory = expect_one_compilation(kata, accelerator, monkeypatch, lists, what)
    memory.expect_copies([(0, 0, 2 * LONG)])


def test_a_list_may_have_any_number_of_pieces(kata, accelerator, monkeypatch):
    lists = {
        f"{count} piece{'s' * (count > 1)}": [(64 * i, 128 * i, 64) for i in range(count)]
        for count in (1, 3, 16)
    }
    what = "lists of any number of pieces"
    expect_one_compilation(kata, accelerator, monkeypatch, lists, what)


def test_a_program_moves_a_chunk_at_a_time(kata, accelerator, monkeypatch):
    times = 64
    launches, memory = Launches(accelerator, monkeypatch), Memory(accelerator)
    pieces, constants = one_after_another([520, 64, 8]), []
    for nbytes in (64, 64 * times):
        columns = memory.columns(pieces)
        kata.copy_pieces(*columns, nbytes)
        accelerator.synchronize()
        claim(launches.constants, "a launch for 3 pieces", "made none", NOT_LAUNCHED)
        constants.append(launches.constants.pop())
    small, large = constants
    claim(
        any(type(small[n]) is int and 0 < small[n] * times == large[n] for n in small),
        expected=f"a constant that is {times} times as large for `bytes_per_chunk={64 * times}` as "
        "for `bytes_per_chunk=64`",
        did=f"launches the kernel with {listed(large)} and with {listed(small)}",
        why=CHUNK,
    )


def listed(constants):
    return ", ".join(f"{name}={value}" for name, value in constants.items()) or "no constant"


def test_a_long_piece_is_shared_out(kata, accelerator, monkeypatch):
    """Only the number of programs can be seen from outside."""
    launches = Launches(accelerator, monkeypatch)
    memory, pieces = Memory(accelerator, nbytes=2 * LONG), [(0, 8, LONG)]
    memory.copy(kata, pieces)
    memory.expect_copies(pieces)
    most = max(launches.programs, default=0)
    claim(
        most > 1,
        expected=f"several programs for a piece of {LONG} bytes",
        did=f"starts {most or 'none'}",
        why=ALONE if most else NOT_LAUNCHED,
    )


def expect_refusal(kata, accelerator, pieces, number, what, why):
    memory = Memory(accelerator)
    try:
        memory.copy(kata, pieces)
    except ValueError as error:
        claim(
            f"descriptor {number}" in str(error),
            expected=f'a ValueError whose text has "descriptor {number}", since {what}',
            did=f"raised ValueError: {error}",
            why=WHICH,
        )
    else:
        claim(False, f"a ValueError, since {what}", "raised nothing", why)
    claim(
        not memory.target.tensor.cpu().any() and not memory.target.overrun(),
        expected="nothing to be copied of a list that is refused",
        did="had copied something when it raised the error",
        why=BEFORE,
    )


@pytest.mark.parametrize("size", [4, 12])
def test_odd_sizes_are_refused(kata, accelerator, size):
    pieces = [(i * 8192, i * 8192, 64) for i in range(7)]
    pieces[5] = (*pieces[5][:2], size)
    what = f"the size of descriptor 5 is {size} bytes"
    expect_refusal(kata, accelerator, pieces, 5, what, ODD_SIZE)


def test_the_first_odd_piece_is_named(kata, accelerator):
    """Descriptors 2, 4 and 5 are wrong, each by another of its three numbers."""
    sides = ["source", "target", "size"]
    for order in permutations(range(3)):
        pieces = [[i * 8192, i * 8192, 64] for i in range(7)]
        for number, side in zip((2, 4, 5), order, strict=True):
            pieces[number][side] += 4
        first, second, third = (sides[side] for side in order)
        what = (
            f"the {first} of descriptor 2 is no multiple of 8, as the {second} of descriptor 4 and "
            f"the {third} of descriptor 5"
        )
        expect_refusal(kata, accelerator, pieces, 2, what, WHICH)


@pytest.mark.parametrize("side", ["source", "target"])
def test_odd_addresses_are_refused(kata, accelerator, side):
    pieces = [(i * 8192, i * 8192, 64) for i in range(7)]
    source, target, nbytes = pieces[6]
    pieces[6] = (source + 4 * (side == "source"), target + 4 * (side == "target"), nbytes)
    what = f"the {side} of descriptor 6 lies 4 bytes after a multiple of 8"
    expect_refusal(kata, accelerator, pieces, 6, what, ODD_ADDRESS)


def common_steps(accelerator):
    lists = {
        "4 pieces": [64, 4104, 8, 16],
        "4 other pieces": [8, 16, 64, 4104],
        "1 piece": [8],
        "no pieces": [],
        "130 pieces": [8 * (1 + i % 5) for i in range(130)],
        "65 pieces": [16] * 65,
        "pieces of no bytes": [0, 0],
    }
    steps = []
    for name, sizes in lists.items():
        memory = torch.zeros(SPACE // WORD, dtype=torch.int64)
        for number, (_, target, nbytes) in enumerate(one_after_another(sizes), start=1):
            memory[target // WORD : (target + nbytes) // WORD] = number
        steps.append(Step(f"copy_pieces of {name}", (sizes,), memory))
    return steps


def pieces_copied(kata, accelerator):
    """Returns a function that copies pieces, each full of its own number, and returns the
    target."""

    def copy(sizes):
        pieces = one_after_another(sizes)
        source = torch.zeros(SPACE // WORD, dtype=torch.int64).pin_memory()
        target = torch.zeros(SPACE // WORD, dtype=torch.int64, device=accelerator.device)
        for number, (start, _, nbytes) in enumerate(pieces, start=1):
            source[start // WORD : (start + nbytes) // WORD] = number
        rows = [
            (source.data_ptr() + start, target.data_ptr() + to, nbytes)
            for start, to, nbytes in pieces
        ]
        columns = torch.tensor(rows, dtype=torch.int64).view(-1, 3).T
        kept = [column.clone().pin_memory() for column in columns]
        kata.copy_pieces(*kept)
        accelerator.synchronize()
        return target

    return copy


COMMON = Common(
    make=pieces_copied,
    steps=common_steps,
    sized=lambda accelerator, n: Step("", ([64] * n,), None),
    result="the target, in words, after {}",
    likely=cause,
    stale="Each call has pieces of its own.",
)
