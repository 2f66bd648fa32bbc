"""Tests of the kata `select_path`. Both paths copy here as the driver does, and note their name."""

import numpy as np
import pytest
import torch

from debubble.exercises import (
    Common,
    Diagnosis,
    KataFailure,
    Step,
    expect_equal,
)

PAGE = 1024
LARGE_PAGE = 64 * 1024
NUMBER = (
    "The DMA engine costs the host something for each piece, and a kernel costs one launch for all "
    "of them: 4 pieces and 64 pieces of the same size take different paths. Pass `len(sizes)` of "
    "the copied list to `time_us`."
)
SIZE = (
    "The size of a page is the layout of the cache, not the size of a copy: a layer tensor may be "
    "copied in parts, and several blocks as one. Call `time_us` with `sizes`, the pieces of this "
    "call."
)
MERGED = (
    "The merged pieces are copied: they are fewer and longer than the pieces of the list. Merge "
    "first, then count, then choose; and copy the merged pieces."
)
EACH_CALL = (
    "One request brings a prefix of 64 blocks and the next one of 3. A path that is right for one "
    "list is wrong for another: choose in each call, and keep nothing of the last call."
)
MEAN = (
    "Pieces differ in size: among many short ones there may be a long one. The time depends on all "
    "bytes together, so `time_us` takes the mean, `sizes.mean()`: neither the longest piece nor "
    "the first stands for the list."
)
MEASURED = (
    "The faster path depends on the GPU, on the link and on the host. A threshold in bytes is "
    "right on one machine only. Compare the times of both paths by `time_us`."
)
WORDS = (
    "The kernel moves words of 8 bytes. Of 12 bytes it would copy 8, and an address between two "
    "words is an error that ends the CUDA context. So if a size or an address of one merged piece "
    "is no multiple of 8, the whole list goes to the DMA engine. Look at the merged pieces in each "
    "call: a page says nothing about them."
)
ONE_PATH = (
    "Choose one path for the whole list. If a size or an address of one merged piece is no "
    "multiple of 8, all pieces go to the DMA engine: don't split the list."
)
PAGES = (
    "`page_sizes` decides nothing, not even if a page is no multiple of 8: two pages of 12 bytes "
    "in a run are one piece of 24 bytes, which the kernel can copy. Look at the merged pieces."
)
NOTHING = (
    "Pieces of no bytes are gone when the list is merged. If no piece is left, there is nothing to "
    "choose and nothing to copy: call neither a path nor `time_us`, and return before you divide "
    "by the number of pieces."
)
BY_ALL_PIECES = (
    "Merge first. Then the number of pieces, their mean size and `time_us` decide, unless a size "
    "or an address is no multiple of 8: then the whole list goes to the DMA engine. If no piece is "
    "left, no path is called."
)
ARRIVE = (
    "Pass the path the pieces that `merge_adjacent` returned, sources before targets: only they "
    "were counted."
)


def of_this_gpu(path, nbytes, count):
    """Returns made-up microseconds: by DMA 2 for each piece, and by kernel 20 for the launch."""
    total = nbytes * count
    return 2 * count + total / 5000 if path == "dma" else 20 + total / 1000


def of_another_gpu(path, nbytes, count):
    """Returns made-up microseconds: by DMA pieces are cheap, but by kernel bytes are faster."""
    total = nbytes * count
    return 0.1 * count + total / 1000 if path == "dma" else 20 + total / 5000


def claim(holds, expected, did, why):
    if not holds:
        raise KataFailure(Diagnosis(expected, did, why=why))


def apart(count, nbytes):
    """Returns pieces (source, target, bytes), none of which continues another."""
    return [((nbytes + 64) * i, nbytes * i, nbytes) for i in range(count)]


def in_one_run(count, nbytes):
    return [(nbytes * i, nbytes * i, nbytes) for i in range(count)]


class Copies:
    """Copies of lists of pieces from pinned host memory to the device, by the path that the kata
    selects."""

    def __init__(self, kata, accelerator, page, time_us=of_this_gpu):
        self.accelerator, self.time_us, self.page = accelerator, time_us, page
        self.taken = []
        paths = {path: self._path(path) for path in ("dma", "kernel")}
        self.copy = kata.select_path([page, page], paths, self._asked)

    def run(self, pieces):
        """Copies a list, compares its bytes, and returns the path that it took; None for no
        path."""
        self.taken.clear()
        end = max((max(source, target) + nbytes for source, target, nbytes in pieces), default=0)
        content = torch.arange(end // 4 + 1, dtype=torch.int32) + 1
        self.cpu = content.pin_memory() if self.accelerator.pin_memory else content
        self.gpu = torch.zeros_like(content, device=self.accelerator.device)
        right = torch.zeros_like(content)
        for source, target, nbytes in pieces:
            first, at, count = source // 4, target // 4, nbytes // 4
            right[at : at + count] = content[first : first + count]
        self.copy(*self._columns(pieces))
        value = f"what {words(pieces)} bring to the device's memory"
        expect_equal(self.gpu, right, value=value, likely=ARRIVE)
        claim(
            len(self.taken) <= 1,
            expected=f"one path for {words(pieces)}",
            did=f"called {len(self.taken)}: {', '.join(path for path, _ in self.taken)}",
            why=ONE_PATH,
        )
        return self.taken[0][0] if self.taken else None

    def _columns(self, pieces):
        rows = [
            (self.cpu.data_ptr() + source, self.gpu.data_ptr() + target, nbytes)
            for source, target, nbytes in pieces
        ]
        return torch.tensor(rows, dtype=torch.int64).view(-1, 3).T.contiguous().numpy()

    def _path(self, path):
        def copy(src, dst, sizes):
            self.taken.append((path, len(sizes)))
            for source, target, nbytes in _rows(src, dst, sizes):
                claim(
                    path == "dma" or not any(n % 8 for n in (source, target, nbytes)),
                    expected=f"{nbytes} bytes, at an offset of {source - self.cpu.data_ptr()} in "
                    f"the source and {target - self.gpu.data_ptr()} in the target, to be copied by "
                    "DMA",
                    did="sent them to the kernel",
                    why=WORDS,
                )
                self.accelerator.copy_bytes(source, target, nbytes)

        return copy

    def _asked(self, path, nbytes, count):
        claim(
            count >= 1 and nbytes > 0,
            expected="`time_us` to be asked about at least 1 piece of at least 1 byte",
            did=f"asked about {count} pieces of {nbytes} bytes",
            why=NOTHING,
        )
        return self.time_us(path, nbytes, count)


def _rows(*columns):
    return zip(*(column.tolist() for column in columns), strict=True)


def words(pieces):
    """Returns what a failing test calls the pieces."""
    sizes = {nbytes for *_, nbytes in pieces}
    count = "1 piece" if len(pieces) == 1 else f"{len(pieces)} pieces"
    each = f"{sizes.pop()} bytes" if len(sizes) == 1 else "different sizes"
    odd = sum(any(number % 8 for number in piece) for piece in pieces)
    rest = f" ({odd} with a size or an address that is no multiple of 8)" if odd else ""
    return f"{count} of {each}{rest}"


def expect_path(copies, pieces, right, why, case=""):
    value = f"the path of {case or words(pieces)}, with pages of {copies.page} bytes,"
    expect_equal(copies.run(pieces), right, value=value, likely=why)


@pytest.mark.parametrize(
    "pieces", [apart(3, 64), apart(20, 8), in_one_run(5, 128), apart(2, 8192)], ids=range(4)
)
@pytest.mark.parametrize("page", [PAGE, LARGE_PAGE])
def test_the_bytes_arrive(kata, accelerator, page, pieces):
    taken = Copies(kata, accelerator, page).run(pieces)
    expect_equal(taken in ("dma", "kernel"), True, value="whether a path was taken", likely=ARRIVE)


@pytest.mark.parametrize(
    ("count", "right"), [(1, "dma"), (4, "dma"), (16, "kernel"), (64, "kernel")]
)
def test_the_number_of_pieces_decides(kata, accelerator, count, right):
    expect_path(Copies(kata, accelerator, 64), apart(count, 64), right, NUMBER)


@pytest.mark.parametrize(
    ("page", "nbytes", "right"),
    [
        (LARGE_PAGE, 64, "kernel"),
        (LARGE_PAGE, 4096, "dma"),
        (PAGE, 64, "kernel"),
        (64, 4096, "dma"),
    ],
)
def test_the_bytes_that_are_copied_decide(kata, accelerator, page, nbytes, right):
    expect_path(Copies(kata, accelerator, page), apart(24, nbytes), right, SIZE)


def test_merged_pieces_are_counted(kata, accelerator):
    copies = Copies(kata, accelerator, 64)
    case = "64 pieces of 64 bytes in one run"
    expect_path(copies, in_one_run(64, 64), "dma", MERGED, case)
    pieces = copies.taken[0][1]
    expect_equal(pieces, 1, value=f"the number of pieces that are copied of {case}", likely=MERGED)


def test_each_list_is_chosen_for(kata, accelerator):
    copies = Copies(kata, accelerator, 64)
    taken = [copies.run(apart(count, 64)) for count in (3, 64, 4, 32)]
    value = "the paths of 4 lists, one after another, of 3, 64, 4 and 32 pieces of 64 bytes"
    expect_equal(taken, ["dma", "kernel", "dma", "kernel"], value=value, likely=EACH_CALL)


def test_lists_of_one_length_may_take_other_paths(kata, accelerator):
    copies = Copies(kata, accelerator, PAGE)
    taken = [copies.run(apart(24, nbytes)) for nbytes in (64, 4096, 64)]
    value = "the paths of 3 lists, one after another, of 24 pieces of 64, 4096 and 64 bytes"
    expect_equal(taken, ["kernel", "dma", "kernel"], value=value, likely=EACH_CALL)


@pytest.mark.parametrize("place", ["first", "last"])
def test_the_mean_size_decides(kata, accelerator, place):
    short, (source, target, nbytes) = apart(32, 64), (16384, 16384, 8192)
    pieces = [*short, (source, target, nbytes)]
    case = f"32 pieces of 64 bytes and one of 8192, which is {place}"
    if place == "first":
        pieces = pieces[::-1]
    expect_path(Copies(kata, accelerator, PAGE), pieces, "kernel", MEAN, case)


@pytest.mark.parametrize(
    ("nbytes", "step"),
    [(12, 16), (4, 8), (8, 12)],
    ids=["12 bytes", "4 bytes", "at multiples of 4"],
)
def test_what_no_kernel_can_copy_is_left_to_dma(kata, accelerator, nbytes, step):
    pieces = [((step + 8) * i, step * i, nbytes) for i in range(64)]
    expect_path(Copies(kata, accelerator, PAGE), pieces, "dma", WORDS)


@pytest.mark.parametrize("place", [0, 31, 63])
def test_one_odd_piece_sends_the_whole_list_to_dma(kata, accelerator, place):
    pieces = apart(64, 64)
    pieces[place] = (*pieces[place][:2], 12)
    expect_path(Copies(kata, accelerator, PAGE), pieces, "dma", WORDS)


def test_odd_pages_are_left_to_dma(kata, accelerator):
    pieces = [(36 * i, 12 * i, 12) for i in range(64)]
    expect_path(Copies(kata, accelerator, 12), pieces, "dma", WORDS)


def test_odd_pages_decide_nothing(kata, accelerator):
    pages = [(48 * i + 12 * j, 24 * i + 12 * j, 12) for i in range(64) for j in range(2)]
    case = "64 runs of 2 pieces of 12 bytes, which are 24 bytes at multiples of 8"
    expect_path(Copies(kata, accelerator, 12), pages, "kernel", PAGES, case)


@pytest.mark.parametrize(
    ("count", "nbytes", "right"), [(64, 64, "dma"), (4, 64, "dma"), (24, 4096, "kernel")]
)
def test_another_gpu_has_other_times(kata, accelerator, count, nbytes, right):
    copies = Copies(kata, accelerator, nbytes, time_us=of_another_gpu)
    expect_path(copies, apart(count, nbytes), right, MEASURED)


@pytest.mark.parametrize("pieces", [[], [(0, 0, 0), (8, 64, 0)]], ids=["no pieces", "no bytes"])
@pytest.mark.parametrize("page", [PAGE, 12])
def test_nothing_to_copy_takes_no_path(kata, accelerator, page, pieces):
    expect_path(Copies(kata, accelerator, page), pieces, None, NOTHING)


def common_steps(accelerator):
    one_long = [(0, 0, 8), (64, 72, 8), (136, 144, 64 * 1024)]
    lists = {
        "1,000 pieces": apart(1000, 8),
        "1 piece": apart(1, 8),
        "no pieces": [],
        "pieces of 4 GiB": apart(3, 1 << 32),
        "a run": in_one_run(64, 64),
        "2 pieces of 8 bytes and one of 64 KiB": one_long,
        "60 pieces of 8 bytes and one of 4 MiB": [*apart(60, 8), (1 << 20, 1 << 20, 1 << 22)],
        "odd pieces": apart(500, 12),
        "pieces of no bytes": [(0, 0, 0)],
    }
    steps = []
    for name, pieces in lists.items():
        columns = np.array(pieces, dtype=np.int64).reshape(-1, 3).T
        steps.append(Step(f"a copy of {name}", tuple(map(np.copy, columns)), right_path(pieces)))
    return steps


def right_path(pieces):
    """Returns the path that is faster and the number of pieces that it gets, in words; None for no
    bytes."""
    runs = []
    for source, target, nbytes in pieces:
        last = runs[-1] if runs else (None, None, 0)
        if runs and last[0] + last[2] == source and last[1] + last[2] == target:
            runs[-1] = last[0], last[1], last[2] + nbytes
        elif nbytes:
            runs.append((source, target, nbytes))
    if not runs:
        return None
    mean = sum(nbytes for *_, nbytes in runs) / len(runs)
    is_odd = any(number % 8 for run in runs for number in run)
    kernel = of_this_gpu("kernel", mean, len(runs)) < of_this_gpu("dma", mean, len(runs))
    return told([("kernel" if kernel and not is_odd else "dma", len(runs))])


def told(taken):
    """Returns the calls of paths in words, or None for no call."""
    return " and ".join(f"{path}, pieces: {count}" for path, count in taken) or None


def choosing(kata, accelerator):
    """Returns a function that copies a list, and returns the paths that were called, in words."""
    taken = []
    note = lambda path: lambda src, dst, sizes: taken.append((path, len(sizes)))
    paths = {path: note(path) for path in ("dma", "kernel")}
    copy = kata.select_path([PAGE, PAGE], paths, of_this_gpu)

    def choose(src, dst, sizes):
        taken.clear()
        copy(src, dst, sizes)
        return told(taken)

    return choose


def sized_step(accelerator, n):
    return Step("", tuple(np.array(apart(n, 8), dtype=np.int64).T.copy()), None)


COMMON = Common(
    make=choosing,
    steps=common_steps,
    sized=sized_step,
    sizes=(64, 1024),
    result="the path, and the number of merged pieces, of {}",
    likely=BY_ALL_PIECES,
    stale=EACH_CALL,
)
