"""Has a program for each 4 chunks of the longest piece, and refuses by torch's operators."""


@triton.jit(do_not_specialize=["num_pieces", "chunks"])
def chunks_kernel(sources, targets, sizes, num_pieces, chunks, WORDS: tl.constexpr):
    for item in range(tl.program_id(0), num_pieces * chunks, tl.num_programs(0)):
        piece = item % num_pieces
        left = tl.load(sizes + piece) // 8 - (item // num_pieces) * WORDS
        lane = tl.arange(0, WORDS)
        start = (item // num_pieces) * WORDS * 8
        source = (tl.load(sources + piece) + start).to(tl.pointer_type(tl.int64)) + lane
        target = (tl.load(targets + piece) + start).to(tl.pointer_type(tl.int64)) + lane
        tl.store(target, tl.load(source, mask=lane < left), mask=lane < left)


def copy_pieces(src_addrs, dst_addrs, sizes, bytes_per_chunk=8192):
    wrong = (src_addrs | dst_addrs | sizes).bitwise_and(7).nonzero()
    if len(wrong):
        raise ValueError(f"descriptor {int(wrong[0])}: must be a multiple of 8")
    longest = int(sizes.max()) if len(sizes) else 0
    if longest == 0:
        return
    chunks = triton.cdiv(longest, bytes_per_chunk)
    launch(
        chunks_kernel,
        (triton.cdiv(len(sizes) * chunks, 4),),
        src_addrs,
        dst_addrs,
        sizes,
        len(sizes),
        chunks,
        WORDS=bytes_per_chunk // 8,
        work=Work(by_address=ByAddress(src_addrs.numpy(), dst_addrs.numpy(), sizes.numpy())),
    )
