"""Crossovers with times that a test can compute itself."""

from solutions.offload.choice.crossover import PATHS, Crossover

KIB = 1024


def crossover_of(time_us, sizes=(4 * KIB, 16 * KIB, 64 * KIB), counts=(16, 256, 4096), **named):
    """Returns a made-up Crossover. `time_us(path, nbytes, count)` is the time in microseconds for
    each of its cells."""
    times = {
        path: [[float(time_us(path, nbytes, count)) for count in counts] for nbytes in sizes]
        for path in PATHS
    }
    return Crossover(
        **{"gpu": "NVIDIA A30", "sizes": list(sizes), "counts": list(counts)} | named,
        times_us=times,
    )


def line_times(path, nbytes, count):
    """Returns a made-up time in µs: the DMA engine's grows with the number of pieces, the kernel's
    with the bytes."""
    return 2.0 * count if path == "dma" else 0.5 * count * (nbytes / (4 * KIB))
