"""Launches a grid of two axes: pieces, and programs that share a piece's chunks."""


@triton.jit
def shares_kernel(sources, targets, sizes, WORDS: tl.constexpr):
    piece = tl.program_id(0)
    num_words = tl.load(sizes + piece) // 8
    source = tl.load(sources + piece).to(tl.pointer_type(tl.int64))
    target = tl.load(targets + piece).to(tl.pointer_type(tl.int64))
    step = tl.num_programs(1) * WORDS
    for first in range(tl.program_id(1) * WORDS, num_words, step):
        place = first + tl.arange(0, WORDS)
        words = tl.load(source + place, mask=place < num_words)
        tl.store(target + place, words, mask=place < num_words)


def copy_pieces(src_addrs, dst_addrs, sizes, bytes_per_chunk=8192):
    columns = [column.numpy() for column in (src_addrs, dst_addrs, sizes)]
    for number, piece in enumerate(zip(*columns, strict=True)):
        if any(int(value) % 8 for value in piece):
            raise ValueError(f"descriptor {number}: an address or a size is no multiple of 8")
    if not columns[2].any():
        return
    shares = min(16, -(-int(columns[2].max()) // bytes_per_chunk))
    launch(
        shares_kernel,
        (len(sizes), shares),
        src_addrs,
        dst_addrs,
        sizes,
        WORDS=bytes_per_chunk // 8,
        work=lambda: Work(by_address=ByAddress(*columns)),
    )
