"""Gives each program items that lie side by side, and checks with numpy alone."""

import numpy as np


@triton.jit(do_not_specialize=["num_items", "per_program", "chunks"])
def runs_kernel(sources, targets, sizes, num_items, per_program, chunks, WORDS: tl.constexpr):
    first = tl.program_id(0) * per_program
    for item in range(first, tl.minimum(first + per_program, num_items)):
        piece, place = item // chunks, (item % chunks) * WORDS + tl.arange(0, WORDS)
        exists = place < tl.load(sizes + piece) // 8
        source = tl.load(sources + piece).to(tl.pointer_type(tl.int64)) + place
        target = tl.load(targets + piece).to(tl.pointer_type(tl.int64)) + place
        tl.store(target, tl.load(source, mask=exists), mask=exists)


def copy_pieces(src_addrs, dst_addrs, sizes, bytes_per_chunk=8192):
    columns = [column.numpy() for column in (src_addrs, dst_addrs, sizes)]
    odd = np.flatnonzero(np.bitwise_or.reduce(columns) % 8)
    if len(odd):
        raise ValueError(f"descriptor {odd[0]}: no multiple of 8")
    chunks = -(-int(columns[2].max(initial=0)) // bytes_per_chunk)
    num_items = chunks * len(sizes)
    if not num_items:
        return
    per_program = -(-num_items // 64)
    launch(
        runs_kernel,
        (-(-num_items // per_program),),
        src_addrs,
        dst_addrs,
        sizes,
        num_items,
        per_program,
        chunks,
        WORDS=bytes_per_chunk // 8,
        work=Work(by_address=ByAddress(*columns)),
    )
