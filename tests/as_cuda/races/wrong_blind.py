"""Wrong programs, written by somebody who had never seen the prover."""

import concurrent.futures
import queue
import threading

import numpy as np
import torch

N = 1 << 22  # 16 MiB of float32: an allocator block of its own
SLEEP = 20_000_000


# ---------------------------------------------------------------- host reads


def host_sums_pinned_download_at_once():
    """host reads a pinned buffer right after a non_blocking download"""
    x = torch.ones(N, device="cuda")
    host = torch.zeros(N, pin_memory=True)
    torch.cuda._sleep(SLEEP)
    host.copy_(x, non_blocking=True)  # first
    total = host.sum().item()  # second
    torch.cuda.synchronize()
    return total


def branch_on_async_flag():
    """control flow on a flag fetched by .to('cpu', non_blocking=True)"""
    x = torch.full((N,), float("inf"), device="cuda")
    bad = torch.isfinite(x).logical_not().any()
    torch.cuda._sleep(SLEEP)
    flag = bad.to("cpu", non_blocking=True)  # first
    skipped = bool(flag)  # second
    torch.cuda.synchronize()
    return skipped


def numpy_view_read_before_done():
    """numpy view of a pinned buffer read before the download is done"""
    x = torch.full((N,), 3.0, device="cuda")
    host = torch.zeros(N, pin_memory=True)
    view = host.numpy()
    torch.cuda._sleep(SLEEP)
    host.copy_(x, non_blocking=True)  # first
    mean = float(np.mean(view))  # second
    torch.cuda.synchronize()
    return mean


def event_recorded_before_download():
    """event recorded before the download it should cover"""
    x = torch.ones(N, device="cuda")
    host = torch.zeros(N, pin_memory=True)
    ev = torch.cuda.Event()
    torch.cuda.synchronize()
    ev.record()
    torch.cuda._sleep(SLEEP)
    host.copy_(x, non_blocking=True)  # first
    ev.synchronize()
    total = host.sum().item()  # second
    torch.cuda.synchronize()
    return total


def wrong_stream_synchronised():
    """download on a copy stream, but the main stream is synchronised"""
    x = torch.ones(N, device="cuda")
    host = torch.zeros(N, pin_memory=True)
    copy = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(copy):
        torch.cuda._sleep(SLEEP)
        host.copy_(x, non_blocking=True)  # first
    torch.cuda.current_stream().synchronize()
    total = host.sum().item()  # second
    torch.cuda.synchronize()
    return total


def query_result_ignored():
    """event.query() called once and its answer ignored"""
    x = torch.ones(N, device="cuda")
    host = torch.zeros(N, pin_memory=True)
    ev = torch.cuda.Event()
    torch.cuda._sleep(SLEEP)
    host.copy_(x, non_blocking=True)  # first
    ev.record()
    ev.query()
    total = host.sum().item()  # second
    torch.cuda.synchronize()
    return total


def device_side_wait_taken_for_host_wait():
    """event.wait() orders the stream, not the host that reads"""
    x = torch.ones(N, device="cuda")
    host = torch.zeros(N, pin_memory=True)
    copy = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(copy):
        torch.cuda._sleep(SLEEP)
        host.copy_(x, non_blocking=True)  # first
        ev = copy.record_event()
    ev.wait()
    total = host.max().item()  # second
    torch.cuda.synchronize()
    return total


def item_on_main_is_no_barrier_for_copy_stream():
    """item() synchronises its own stream only; the pinned buffer is another's"""
    x = torch.ones(N, device="cuda")
    loss = torch.ones((), device="cuda")
    host = torch.zeros(N, pin_memory=True)
    copy = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(copy):
        torch.cuda._sleep(SLEEP)
        host.copy_(x, non_blocking=True)  # first
    value = loss.item()
    total = host.sum().item()  # second
    torch.cuda.synchronize()
    return value + total


# ------------------------------------------------------- pinned buffers refilled


def pinned_refilled_in_flight():
    """pinned buffer refilled while its upload is queued"""
    pinned = torch.ones(N, pin_memory=True)
    dev = torch.empty(N, device="cuda")
    torch.cuda.synchronize()
    torch.cuda._sleep(SLEEP)
    dev.copy_(pinned, non_blocking=True)  # first
    pinned.fill_(2.0)  # second
    return dev.sum().item()


def pinned_refilled_through_numpy():
    """pinned buffer refilled through its numpy view in flight"""
    pinned = torch.ones(N, pin_memory=True)
    view = pinned.numpy()
    torch.cuda.synchronize()
    torch.cuda._sleep(SLEEP)
    dev = pinned.to("cuda", non_blocking=True)  # first
    np.copyto(view, np.float32(4.0))  # second
    return dev.sum().item()


def host_registered_buffer_refilled():
    """cudaHostRegister'ed memory overwritten during its upload"""
    buf = torch.ones(N)
    rt = torch.cuda.cudart()
    rt.cudaHostRegister(buf.data_ptr(), buf.numel() * 4, 0)
    dev = torch.empty(N, device="cuda")
    torch.cuda.synchronize()
    torch.cuda._sleep(SLEEP)
    dev.copy_(buf, non_blocking=True)  # first
    buf.fill_(2.0)  # second
    torch.cuda.synchronize()
    rt.cudaHostUnregister(buf.data_ptr())
    return dev.sum().item()


def converting_upload_still_reads_pinned_late():
    """dtype conversion runs on the GPU, so the pinned half buffer is read late"""
    pinned = torch.ones(N, dtype=torch.float16).pin_memory()
    dev = torch.empty(N, dtype=torch.float32, device="cuda")
    torch.cuda.synchronize()
    torch.cuda._sleep(SLEEP)
    dev.copy_(pinned, non_blocking=True)  # first
    pinned.zero_()  # second
    return dev.sum().item()


def index_table_rewritten_on_host():
    """pinned index table advanced on the host while the upload is queued"""
    table = torch.arange(4096, dtype=torch.float32, device="cuda")
    idx_host = torch.arange(1024).pin_memory()
    idx_dev = torch.empty(1024, dtype=torch.long, device="cuda")
    torch.cuda.synchronize()
    torch.cuda._sleep(SLEEP)
    idx_dev.copy_(idx_host, non_blocking=True)  # first
    rows = table.index_select(0, idx_dev)
    idx_host.add_(1024)  # second
    return rows.sum().item()


def filler_thread_refills_in_flight():
    """a filler thread refills the pinned batch as soon as the upload is queued"""
    pinned = torch.ones(N, pin_memory=True)
    dev = torch.empty(N, device="cuda")
    go = threading.Event()

    def filler():
        go.wait()
        pinned.fill_(2.0)  # second

    th = threading.Thread(target=filler)
    th.start()
    torch.cuda.synchronize()
    torch.cuda._sleep(SLEEP)
    dev.copy_(pinned, non_blocking=True)  # first
    go.set()
    th.join()
    return dev.sum().item()


# ------------------------------------------------------ stream order and events


def side_result_used_without_wait():
    """result of a side stream used on the main stream without a wait"""
    x = torch.ones(N, device="cuda")
    y = torch.zeros(N, device="cuda")
    s = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(s):
        torch.cuda._sleep(SLEEP)
        torch.mul(x, 2.0, out=y)  # first
    z = y + 1  # second
    torch.cuda.synchronize()
    return z.sum().item()


def side_reads_main_result_without_wait():
    """side stream reads what the main stream is still computing"""
    y = torch.zeros(N, device="cuda")
    s = torch.cuda.Stream()
    torch.cuda.synchronize()
    torch.cuda._sleep(SLEEP)
    y.add_(5.0)  # first
    with torch.cuda.stream(s):
        z = y.sqrt()  # second
    torch.cuda.synchronize()
    return z.sum().item()


def wait_stream_called_too_early():
    """wait_stream called before the side work is queued"""
    y = torch.zeros(N, device="cuda")
    s = torch.cuda.Stream()
    torch.cuda.synchronize()
    torch.cuda.current_stream().wait_stream(s)
    with torch.cuda.stream(s):
        torch.cuda._sleep(SLEEP)
        y.fill_(3.0)  # first
    z = y * 2  # second
    torch.cuda.synchronize()
    return z.sum().item()


def wait_stream_wrong_direction():
    """producer waits for the consumer instead of the other way round"""
    y = torch.zeros(N, device="cuda")
    s = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(s):
        torch.cuda._sleep(SLEEP)
        y.fill_(3.0)  # first
    s.wait_stream(torch.cuda.current_stream())
    z = y * 2  # second
    torch.cuda.synchronize()
    return z.sum().item()


def current_stream_inside_context_waits_for_itself():
    """current_stream() inside the with block is the side stream itself"""
    y = torch.zeros(N, device="cuda")
    s = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(s):
        torch.cuda._sleep(SLEEP)
        y.fill_(3.0)  # first
        torch.cuda.current_stream().wait_stream(s)
    z = y - 1  # second
    torch.cuda.synchronize()
    return z.sum().item()


def event_recorded_before_producer_kernel():
    """event recorded between two side kernels, the second is not covered"""
    y = torch.zeros(N, device="cuda")
    s = torch.cuda.Stream()
    ev = torch.cuda.Event()
    torch.cuda.synchronize()
    with torch.cuda.stream(s):
        torch.cuda._sleep(1000)
        ev.record()
        torch.cuda._sleep(SLEEP)
        y.fill_(3.0)  # first
    ev.wait()
    z = y * 2  # second
    torch.cuda.synchronize()
    return z.sum().item()


def event_recorded_on_wrong_stream():
    """event.record() outside of the with block records on the main stream"""
    y = torch.zeros(N, device="cuda")
    s = torch.cuda.Stream()
    ev = torch.cuda.Event()
    torch.cuda.synchronize()
    with torch.cuda.stream(s):
        torch.cuda._sleep(SLEEP)
        y.fill_(3.0)  # first
    ev.record()
    torch.cuda.current_stream().wait_event(ev)
    z = y * 2  # second
    torch.cuda.synchronize()
    return z.sum().item()


def event_recorded_but_never_waited():
    """event recorded by the producer, no stream waits for it"""
    y = torch.zeros(N, device="cuda")
    s1, s2 = torch.cuda.Stream(), torch.cuda.Stream()
    done = torch.cuda.Event()
    torch.cuda.synchronize()
    with torch.cuda.stream(s1):
        torch.cuda._sleep(SLEEP)
        y.fill_(3.0)  # first
        done.record(s1)
    with torch.cuda.stream(s2):
        z = y.cumsum(0)  # second
    torch.cuda.synchronize()
    return z[-1].item()


def event_waited_before_recorded():
    """waiting for an event that is not recorded yet is a no-op"""
    y = torch.zeros(N, device="cuda")
    s = torch.cuda.Stream()
    ev = torch.cuda.Event()
    torch.cuda.synchronize()
    torch.cuda.current_stream().wait_event(ev)
    with torch.cuda.stream(s):
        torch.cuda._sleep(SLEEP)
        y.fill_(3.0)  # first
        ev.record(s)
    z = y * 2  # second
    torch.cuda.synchronize()
    return z.sum().item()


def event_re_recorded_by_another_stream():
    """one event recorded twice: the wait sees the last record only"""
    a = torch.zeros(N, device="cuda")
    b = torch.zeros(N, device="cuda")
    s1, s2 = torch.cuda.Stream(), torch.cuda.Stream()
    ev = torch.cuda.Event()
    torch.cuda.synchronize()
    with torch.cuda.stream(s1):
        torch.cuda._sleep(SLEEP)
        a.fill_(1.0)  # first
    ev.record(s1)
    with torch.cuda.stream(s2):
        b.fill_(2.0)
    ev.record(s2)
    torch.cuda.current_stream().wait_event(ev)
    c = a + b  # second
    torch.cuda.synchronize()
    return c.sum().item()


def wrong_consumer_waits():
    """a third stream waits for the event, the consumer does not"""
    y = torch.zeros(N, device="cuda")
    s1, s2, s3 = (torch.cuda.Stream() for _ in range(3))
    torch.cuda.synchronize()
    with torch.cuda.stream(s1):
        torch.cuda._sleep(SLEEP)
        y.fill_(3.0)  # first
        ev = s1.record_event()
    s3.wait_event(ev)
    with torch.cuda.stream(s2):
        z = y * 2  # second
    torch.cuda.synchronize()
    return z.sum().item()


def blocking_cpu_of_side_result():
    """.cpu() synchronises the current stream only, the producer is another"""
    y = torch.zeros(N, device="cuda")
    s = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(s):
        torch.cuda._sleep(SLEEP)
        y.fill_(3.0)  # first
    host = y.cpu()  # second
    torch.cuda.synchronize()
    return host.sum().item()


def priority_taken_for_order():
    """a high-priority stream is believed to finish first"""
    y = torch.zeros(N, device="cuda")
    hi = torch.cuda.Stream(priority=-1)
    torch.cuda.synchronize()
    with torch.cuda.stream(hi):
        torch.cuda._sleep(SLEEP)
        y.fill_(4.0)  # first
    total = y.sum()  # second
    torch.cuda.synchronize()
    return total.item()


def set_stream_switched_between_producer_and_consumer():
    """set_stream back to main between producer and consumer without a wait"""
    y = torch.zeros(N, device="cuda")
    main, s = torch.cuda.current_stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    torch.cuda.set_stream(s)
    torch.cuda._sleep(SLEEP)
    y.fill_(4.0)  # first
    torch.cuda.set_stream(main)
    total = y.mean()  # second
    torch.cuda.synchronize()
    return total.item()


def two_uploads_to_one_target():
    """two streams upload different versions to one tensor (write-write)"""
    old = torch.ones(N).pin_memory()
    new = torch.full((N,), 2.0).pin_memory()
    dev = torch.zeros(N, device="cuda")
    s1, s2 = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(s1):
        torch.cuda._sleep(SLEEP)
        dev.copy_(old, non_blocking=True)  # first
    with torch.cuda.stream(s2):
        dev.copy_(new, non_blocking=True)  # second
    torch.cuda.synchronize()
    return dev.sum().item()


def bounce_buffer_without_event():
    """download and re-upload through a pinned bounce buffer on two streams"""
    x = torch.ones(N, device="cuda")
    y = torch.zeros(N, device="cuda")
    bounce = torch.zeros(N, pin_memory=True)
    down, up = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(down):
        torch.cuda._sleep(SLEEP)
        bounce.copy_(x, non_blocking=True)  # first
    with torch.cuda.stream(up):
        y.copy_(bounce, non_blocking=True)  # second
    torch.cuda.synchronize()
    return y.sum().item()


def strided_view_written_base_read():
    """strided view written on a side stream, base read on main"""
    base = torch.zeros(N, device="cuda")
    s = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(s):
        torch.cuda._sleep(SLEEP)
        base[::2].fill_(3.0)  # first
    rows = base.view(1024, -1).sum(1)  # second
    torch.cuda.synchronize()
    return rows.sum().item()


def overlapping_slices_on_two_streams():
    """two streams write slices of one buffer that overlap"""
    buf = torch.zeros(N, device="cuda")
    s1, s2 = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(s1):
        torch.cuda._sleep(SLEEP)
        buf[: N // 2 + 1024].fill_(1.0)  # first
    with torch.cuda.stream(s2):
        buf[N // 2 :].fill_(2.0)  # second
    torch.cuda.synchronize()
    return buf.sum().item()


# -------------------------------------------------------------- the allocator


def freed_on_main_while_side_reads():
    """main-stream tensor freed and reused while a side stream reads it"""
    torch.cuda.empty_cache()
    x = torch.ones(N, device="cuda")
    y = torch.zeros(N, device="cuda")
    s = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(s):
        torch.cuda._sleep(SLEEP)
        y.copy_(x)  # first
    del x
    z = torch.full((N,), 7.0, device="cuda")  # second
    torch.cuda.synchronize()
    return y.sum().item() + z.sum().item()


def prefetcher_without_record_stream():
    """prefetched batch dropped, its block refilled by the copy stream"""
    torch.cuda.empty_cache()
    batches = [torch.full((N,), float(i)).pin_memory() for i in range(3)]
    out = torch.zeros(N, device="cuda")
    main, copy = torch.cuda.current_stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(copy):
        nxt = batches[0].to("cuda", non_blocking=True)
    for i in range(2):
        main.wait_stream(copy)
        torch.cuda._sleep(SLEEP)
        out.add_(nxt)  # first
        del nxt
        with torch.cuda.stream(copy):
            nxt = batches[i + 1].to("cuda", non_blocking=True)  # noqa: F841  # second
    torch.cuda.synchronize()
    return out.sum().item()


def record_stream_taken_for_order():
    """record_stream keeps the memory alive but orders nothing"""
    x = torch.ones(N, device="cuda")
    s = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(s):
        torch.cuda._sleep(SLEEP)
        y = x * 2  # first
    y.record_stream(torch.cuda.current_stream())
    z = y + 1  # second
    torch.cuda.synchronize()
    return z.sum().item()


def record_stream_with_own_stream():
    """record_stream given the allocation stream instead of the using stream"""
    torch.cuda.empty_cache()
    x = torch.ones(N, device="cuda")
    y = torch.zeros(N, device="cuda")
    s = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(s):
        torch.cuda._sleep(SLEEP)
        y.copy_(x)  # first
    x.record_stream(torch.cuda.current_stream())
    del x
    z = torch.full((N,), 7.0, device="cuda")  # second
    torch.cuda.synchronize()
    return y.sum().item() + z.sum().item()


def offloaded_activation_freed_too_early():
    """activation freed during its download on the offload stream"""
    torch.cuda.empty_cache()
    host = torch.zeros(N, pin_memory=True)
    main, off = torch.cuda.current_stream(), torch.cuda.Stream()
    act = torch.ones(N, device="cuda")
    off.wait_stream(main)
    with torch.cuda.stream(off):
        torch.cuda._sleep(SLEEP)
        host.copy_(act, non_blocking=True)  # first
    del act
    nxt = torch.full((N,), 7.0, device="cuda")  # second
    torch.cuda.synchronize()
    return host.sum().item() + nxt.sum().item()


def storage_resized_to_zero_in_use():
    """unsharded storage resized to 0 while the side stream computes with it"""
    torch.cuda.empty_cache()
    full = torch.ones(N, device="cuda")
    y = torch.zeros(N, device="cuda")
    s = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(s):
        torch.cuda._sleep(SLEEP)
        y.add_(full)  # first
    full.untyped_storage().resize_(0)
    z = torch.full((N,), 7.0, device="cuda")  # second
    torch.cuda.synchronize()
    return y.sum().item() + z.sum().item()


def module_moved_to_cpu_in_use():
    """module.to('cpu') frees weights that a side stream still multiplies with"""
    torch.cuda.empty_cache()
    lin = torch.nn.Linear(2048, 2048, bias=False, device="cuda")
    x = torch.ones(8, 2048, device="cuda")
    s = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(s):
        s.wait_stream(torch.cuda.default_stream())
        lin(x)
        torch.cuda.synchronize()
        torch.cuda._sleep(5 * SLEEP)
        y = lin(x)  # first
    lin.to("cpu")
    z = torch.full((2048, 2048), 7.0, device="cuda")  # second
    torch.cuda.synchronize()
    return y.sum().item() + z.sum().item()


def side_tensor_dropped_while_main_reads():
    """tensor of a side stream dropped, next side tensor takes its block"""
    torch.cuda.empty_cache()
    out = torch.zeros(N, device="cuda")
    main, s = torch.cuda.current_stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(s):
        t = torch.ones(N, device="cuda")
    main.wait_stream(s)
    torch.cuda._sleep(SLEEP)
    out.add_(t)  # first
    del t
    with torch.cuda.stream(s):
        u = torch.full((N,), 9.0, device="cuda")  # second
    torch.cuda.synchronize()
    return out.sum().item() + u.sum().item()


# -------------------------------------------------------------------- threads


def worker_stream_reads_before_ready():
    """tensor handed through a queue to a worker with its own stream, no event"""
    q, out = queue.Queue(), []
    y = torch.zeros(N, device="cuda")
    s = torch.cuda.Stream()
    torch.cuda.synchronize()

    def worker():
        t = q.get()
        with torch.cuda.stream(s):
            out.append(t.sum())  # second

    th = threading.Thread(target=worker)
    th.start()
    torch.cuda._sleep(SLEEP)
    y.add_(2.0)  # first
    q.put(y)
    th.join()
    torch.cuda.synchronize()
    return out[0].item()


def thread_does_not_inherit_stream():
    """the stream context is thread-local: the thread runs on the default stream"""
    out = []
    y = torch.zeros(N, device="cuda")
    s = torch.cuda.Stream()
    torch.cuda.synchronize()

    def worker():
        out.append(y.sum())  # second

    with torch.cuda.stream(s):
        torch.cuda._sleep(SLEEP)
        y.fill_(3.0)  # first
        th = threading.Thread(target=worker)
        th.start()
        th.join()
    torch.cuda.synchronize()
    return out[0].item()


def pool_results_used_after_future_only():
    """futures are done when the kernels are queued, not when they are finished"""
    parts = torch.zeros(4, N, device="cuda")
    torch.cuda.synchronize()

    def work(i):
        s = torch.cuda.Stream()
        with torch.cuda.stream(s):
            torch.cuda._sleep(SLEEP)
            parts[i].fill_(float(i + 1))  # first

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    total = parts.sum()  # second
    torch.cuda.synchronize()
    return total.item()


def worker_drops_last_reference():
    """worker drops the last reference while its stream still reads"""
    torch.cuda.empty_cache()
    q, queued = queue.Queue(), threading.Event()
    sink = torch.zeros(N, device="cuda")
    x = torch.ones(N, device="cuda")
    s = torch.cuda.Stream()
    torch.cuda.synchronize()

    def worker():
        t = q.get()
        with torch.cuda.stream(s):
            torch.cuda._sleep(SLEEP)
            sink.copy_(t)  # first
        del t
        queued.set()

    th = threading.Thread(target=worker)
    th.start()
    q.put(x)
    del x
    queued.wait()
    z = torch.full((N,), 7.0, device="cuda")  # second
    th.join()
    torch.cuda.synchronize()
    return sink.sum().item() + z.sum().item()


def two_threads_update_one_tensor():
    """two threads update a shared accumulator, each on its own stream"""
    acc = torch.zeros(N, device="cuda")
    s1, s2 = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()

    def scale():
        with torch.cuda.stream(s1):
            torch.cuda._sleep(SLEEP)
            acc.add_(1.0)  # first

    def shift():
        with torch.cuda.stream(s2):
            acc.mul_(10.0)  # second

    for fn in (scale, shift):
        th = threading.Thread(target=fn)
        th.start()
        th.join()
    torch.cuda.synchronize()
    return acc.sum().item()


def checkpoint_thread_vs_training():
    """checkpoint thread downloads weights that training updates meanwhile"""
    w = torch.ones(N, device="cuda")
    host = torch.zeros(N, pin_memory=True)
    queued, saved = threading.Event(), []
    s = torch.cuda.Stream()
    torch.cuda.synchronize()

    def save():
        with torch.cuda.stream(s):
            torch.cuda._sleep(SLEEP)
            host.copy_(w, non_blocking=True)  # first
        queued.set()
        s.synchronize()
        saved.append(host.sum().item())

    th = threading.Thread(target=save)
    th.start()
    queued.wait()
    w.mul_(0.5)  # second
    th.join()
    torch.cuda.synchronize()
    return saved[0]


# ---------------------------------------------------------------- CUDA graphs


def graph_input_overwritten_during_replay():
    """static input of a graph overwritten from another stream during replay"""
    x = torch.ones(N, device="cuda")
    new = torch.full((N,), 5.0, device="cuda")
    g, s = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(g):
        torch.cuda._sleep(SLEEP)
        y = x * 2
    torch.cuda.synchronize()
    g.replay()  # first
    with torch.cuda.stream(s):
        x.copy_(new)  # second
    torch.cuda.synchronize()
    return y.sum().item()


def graph_output_read_from_other_stream():
    """output of a replay read from another stream without a wait"""
    x = torch.ones(N, device="cuda")
    g, s = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(g):
        torch.cuda._sleep(SLEEP)
        y = x + 41
    torch.cuda.synchronize()
    g.replay()  # first
    with torch.cuda.stream(s):
        z = y.clone()  # second
    torch.cuda.synchronize()
    return z.sum().item()


def graph_replayed_on_side_before_input_ready():
    """input filled on main, graph replayed on a side stream without a wait"""
    x = torch.ones(N, device="cuda")
    new = torch.full((N,), 5.0, device="cuda")
    g, s = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(g):
        y = x * 2
    torch.cuda.synchronize()
    torch.cuda._sleep(SLEEP)
    x.copy_(new)  # first
    with torch.cuda.stream(s):
        g.replay()  # second
    torch.cuda.synchronize()
    return y.sum().item()


def captured_download_read_without_sync():
    """host reads the pinned target of a captured download right after replay"""
    x = torch.ones(N, device="cuda")
    host = torch.zeros(N, pin_memory=True)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        torch.cuda._sleep(SLEEP)
        y = x * 2
        host.copy_(y, non_blocking=True)
    torch.cuda.synchronize()
    g.replay()  # first
    total = host.sum().item()  # second
    torch.cuda.synchronize()
    return total


def captured_upload_source_refilled():
    """host refills the pinned source of a captured upload during replay"""
    pinned = torch.ones(N, pin_memory=True)
    dev = torch.zeros(N, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        torch.cuda._sleep(SLEEP)
        dev.copy_(pinned, non_blocking=True)
    torch.cuda.synchronize()
    g.replay()  # first
    pinned.fill_(9.0)  # second
    torch.cuda.synchronize()
    return dev.sum().item()


def graphs_of_one_pool_replayed_concurrently():
    """two graphs of one memory pool replayed on two streams share scratch"""
    x = torch.ones(N, device="cuda")
    g1, g2 = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    s1, s2 = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.graph(g1):
        t = x * 2
        torch.cuda._sleep(SLEEP)
        out1 = t + 1
        del t
    with torch.cuda.graph(g2, pool=g1.pool()):
        t = x * 30
        out2 = t + 1
        del t
    torch.cuda.synchronize()
    with torch.cuda.stream(s1):
        g1.replay()  # first
    with torch.cuda.stream(s2):
        g2.replay()  # second
    torch.cuda.synchronize()
    return out1.sum().item() + out2.sum().item()


def replay_overwrites_output_still_read():
    """next replay overwrites the output that a side stream still copies"""
    x = torch.ones(N, device="cuda")
    snap = torch.zeros(N, device="cuda")
    main, s = torch.cuda.current_stream(), torch.cuda.Stream()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        x.add_(1)
        y = x * 2
    torch.cuda.synchronize()
    g.replay()
    s.wait_stream(main)
    with torch.cuda.stream(s):
        torch.cuda._sleep(SLEEP)
        snap.copy_(y)  # first
    g.replay()  # second
    torch.cuda.synchronize()
    return snap.sum().item()


def captured_fork_reads_before_join():
    """fork inside a capture: main branch reads before it joins the side branch"""
    buf = torch.zeros(N, device="cuda")
    g, s = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(g):
        main = torch.cuda.current_stream()
        s.wait_stream(main)
        with torch.cuda.stream(s):
            torch.cuda._sleep(SLEEP)
            buf.add_(7.0)  # first
        out = buf * 2  # second
        main.wait_stream(s)
    torch.cuda.synchronize()
    g.replay()
    torch.cuda.synchronize()
    return out.sum().item()


def producer_and_consumer_graph_on_two_streams():
    """consumer graph replayed on another stream than the producer graph"""
    x = torch.ones(N, device="cuda")
    buf = torch.zeros(N, device="cuda")
    g1, g2 = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    s1, s2 = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.graph(g1):
        torch.cuda._sleep(SLEEP)
        buf.copy_(x)
    with torch.cuda.graph(g2):
        out = buf + 1
    torch.cuda.synchronize()
    with torch.cuda.stream(s1):
        g1.replay()  # first
    with torch.cuda.stream(s2):
        g2.replay()  # second
    torch.cuda.synchronize()
    return out.sum().item()


def graphed_callable_output_overwritten():
    """static output of a graphed callable overwritten while a side stream reads"""
    a = torch.ones(256, 64, device="cuda")
    b = torch.full((256, 64), 5.0, device="cuda")
    snap = torch.zeros(256, 64, device="cuda")
    f = torch.cuda.make_graphed_callables(torch.nn.Linear(64, 64).cuda(), (a.clone(),))
    main, s = torch.cuda.current_stream(), torch.cuda.Stream()
    y = f(a)
    s.wait_stream(main)
    with torch.cuda.stream(s):
        torch.cuda._sleep(SLEEP)
        snap.copy_(y.detach())  # first
    f(b)  # second
    torch.cuda.synchronize()
    return snap.sum().item()


# ----------------------------------------------------- pipelines and prefetchers


def double_buffer_without_free_event():
    """device double buffer refilled without waiting for its consumer"""
    src = [torch.full((N,), float(i)).pin_memory() for i in range(4)]
    bufs = [torch.zeros(N, device="cuda") for _ in range(2)]
    ready = [torch.cuda.Event() for _ in range(2)]
    acc = torch.zeros(N, device="cuda")
    main, copy = torch.cuda.current_stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    for i in range(4):
        k = i % 2
        with torch.cuda.stream(copy):
            bufs[k].copy_(src[i], non_blocking=True)  # second
            ready[k].record()
        main.wait_event(ready[k])
        torch.cuda._sleep(SLEEP)
        acc.add_(bufs[k])  # first
    torch.cuda.synchronize()
    return acc.sum().item()


def prefetcher_without_wait():
    """prefetcher hands out the batch without waiting for its upload"""
    data = [torch.full((N,), float(i + 1)).pin_memory() for i in range(3)]
    slots = [torch.zeros(N, device="cuda") for _ in range(3)]
    copy = torch.cuda.Stream()
    torch.cuda.synchronize()

    def prefetch():
        for slot, batch in zip(slots, data, strict=False):
            with torch.cuda.stream(copy):
                torch.cuda._sleep(SLEEP)
                slot.copy_(batch, non_blocking=True)  # first
            yield slot

    sums = []
    for batch in prefetch():
        sums.append(batch.sum())  # second
    torch.cuda.synchronize()
    return [t.item() for t in sums]


def weight_streaming_overwrites_layer_in_use():
    """next layer's weights streamed into the buffer the matmul still reads"""
    x = torch.ones(64, 1024, device="cuda")
    buf = torch.ones(1024, 1024, device="cuda")
    nxt = torch.full((1024, 1024), 2.0).pin_memory()
    copy = torch.cuda.Stream()
    torch.mm(x, buf)
    torch.cuda.synchronize()
    torch.cuda._sleep(SLEEP)
    y = torch.mm(x, buf)  # first
    with torch.cuda.stream(copy):
        buf.copy_(nxt, non_blocking=True)  # second
    torch.cuda.synchronize()
    return y.sum().item()


def output_reused_before_download():
    """compute reuses the output buffer whose download is still queued"""
    x = torch.ones(N, device="cuda")
    out = torch.zeros(N, device="cuda")
    host = torch.zeros(N, pin_memory=True)
    main, copy = torch.cuda.current_stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    torch.mul(x, 2.0, out=out)
    copy.wait_stream(main)
    with torch.cuda.stream(copy):
        torch.cuda._sleep(SLEEP)
        host.copy_(out, non_blocking=True)  # first
    torch.mul(x, 3.0, out=out)  # second
    torch.cuda.synchronize()
    return host.sum().item()


def kv_page_swapped_in_too_late():
    """KV page swapped in on the copy stream, gathered without a wait"""
    pages = torch.zeros(64, 16, 128, device="cuda")
    page = torch.ones(16, 128).pin_memory()
    table = torch.tensor([5, 9, 2], device="cuda")
    q = torch.ones(1, 128, device="cuda")
    copy = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(copy):
        torch.cuda._sleep(SLEEP)
        pages[5].copy_(page, non_blocking=True)  # first
    keys = pages.index_select(0, table)  # second
    scores = q @ keys.reshape(-1, 128).t()
    torch.cuda.synchronize()
    return scores.sum().item()


def kv_cache_evicted_under_attention():
    """KV cache slot overwritten by the copy stream while attention reads it"""
    q, k, v = (torch.ones(1, 4, 128, 64, device="cuda") for _ in range(3))
    other = torch.full((1, 4, 128, 64), 9.0).pin_memory()
    copy = torch.cuda.Stream()
    torch.nn.functional.scaled_dot_product_attention(q, k, v)
    torch.cuda.synchronize()
    torch.cuda._sleep(SLEEP)
    o = torch.nn.functional.scaled_dot_product_attention(q, k, v)  # first
    with torch.cuda.stream(copy):
        v.copy_(other, non_blocking=True)  # second
    torch.cuda.synchronize()
    return o.sum().item()


def embedding_updated_while_prefetched():
    """embedding rows gathered on a prefetch stream before the update is done"""
    table = torch.zeros(4096, 64, device="cuda")
    idx = torch.arange(0, 4096, 4, device="cuda")
    upd = torch.ones(1024, 64, device="cuda")
    s = torch.cuda.Stream()
    torch.cuda.synchronize()
    torch.cuda._sleep(SLEEP)
    table.index_add_(0, idx, upd)  # first
    with torch.cuda.stream(s):
        rows = table.index_select(0, idx)  # second
    torch.cuda.synchronize()
    return rows.sum().item()


# ------------------------------------------------------- autograd and optimizers


def gradient_normed_on_other_stream():
    """gradient norm on a side stream without waiting for backward"""
    w = torch.ones(N, device="cuda", requires_grad=True)
    s = torch.cuda.Stream()
    loss = (w * 3).sum()
    torch.cuda.synchronize()
    torch.cuda._sleep(SLEEP)
    loss.backward()  # first
    with torch.cuda.stream(s):
        norm = w.grad.norm()  # second
    torch.cuda.synchronize()
    return norm.item()


def backward_on_side_grad_used_on_main():
    """backward() called in a side stream context, grad used on main"""
    w = torch.ones(N, device="cuda", requires_grad=True)
    s = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(s):
        loss = (w * 3).sum()
        torch.cuda._sleep(SLEEP)
        loss.backward()  # first
    total = w.grad.sum()  # second
    torch.cuda.synchronize()
    return total.item()


def initial_gradient_filled_on_other_stream():
    """initial gradient filled on main, backward runs on the side stream"""
    w = torch.ones(N, device="cuda", requires_grad=True)
    g0 = torch.zeros(N, device="cuda")
    s = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(s):
        y = w * 3
    torch.cuda._sleep(SLEEP)
    g0.fill_(2.0)  # first
    with torch.cuda.stream(s):
        y.backward(gradient=g0)  # second
    torch.cuda.synchronize()
    return w.grad.sum().item()


def grad_hook_downloads_without_wait():
    """post-accumulate hook downloads the gradient on a copy stream, no wait"""
    w = torch.ones(N, device="cuda", requires_grad=True)
    host = torch.zeros(N, pin_memory=True)
    copy = torch.cuda.Stream()

    def hook(p):
        with torch.cuda.stream(copy):
            host.copy_(p.grad, non_blocking=True)  # second

    w.register_post_accumulate_grad_hook(hook)
    loss = (w * 3).sum()
    torch.cuda.synchronize()
    torch.cuda._sleep(SLEEP)
    loss.backward()  # first
    torch.cuda.synchronize()
    return host.sum().item()


def custom_backward_forgets_join():
    """custom autograd backward computes on a side stream and does not join"""
    w = torch.ones(N, device="cuda", requires_grad=True)
    side = torch.cuda.Stream()

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            side.wait_stream(torch.cuda.current_stream())
            g.record_stream(side)
            with torch.cuda.stream(side):
                torch.cuda._sleep(SLEEP)
                return g * 2  # first

    (gw,) = torch.autograd.grad(Double.apply(w).sum(), w)
    total = gw.sum()  # second
    torch.cuda.synchronize()
    return total.item()


def zero_grad_while_side_reads():
    """zero_grad(set_to_none=False) while a side stream still copies the grad"""
    w = torch.ones(N, device="cuda", requires_grad=True)
    w.grad = torch.ones(N, device="cuda")
    opt = torch.optim.SGD([w], lr=0.1)
    snap = torch.zeros(N, device="cuda")
    s = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(s):
        torch.cuda._sleep(SLEEP)
        snap.copy_(w.grad)  # first
    opt.zero_grad(set_to_none=False)  # second
    torch.cuda.synchronize()
    return snap.sum().item()


def optimizer_step_during_parameter_download():
    """in-place optimizer step during the download of the parameter"""
    w = torch.ones(N, device="cuda", requires_grad=True)
    w.grad = torch.ones(N, device="cuda")
    opt = torch.optim.SGD([w], lr=0.1)
    host = torch.zeros(N, pin_memory=True)
    copy = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(copy):
        torch.cuda._sleep(SLEEP)
        host.copy_(w.detach(), non_blocking=True)  # first
    opt.step()  # second
    torch.cuda.synchronize()
    return host.sum().item()


def ema_reads_weights_before_step_is_done():
    """EMA on a side stream reads weights that the step is still updating"""
    w = torch.ones(N, device="cuda", requires_grad=True)
    w.grad = torch.ones(N, device="cuda")
    ema = torch.ones(N, device="cuda")
    opt = torch.optim.SGD([w], lr=0.5)
    s = torch.cuda.Stream()
    torch.cuda.synchronize()
    torch.cuda._sleep(SLEEP)
    opt.step()  # first
    with torch.cuda.stream(s):
        ema.lerp_(w.detach(), 0.1)  # second
    torch.cuda.synchronize()
    return ema.sum().item()


def learning_rate_tensor_changed_early():
    """scheduler stream changes the device lr before the update has read it"""
    w = torch.ones(N, device="cuda")
    grad = torch.ones(N, device="cuda")
    lr = torch.tensor([0.5], device="cuda")
    s = torch.cuda.Stream()
    torch.cuda.synchronize()
    torch.cuda._sleep(SLEEP)
    w.addcmul_(grad, lr, value=-1)  # first
    with torch.cuda.stream(s):
        lr.mul_(0.1)  # second
    torch.cuda.synchronize()
    return w.sum().item()


def running_stats_snapshot_too_early():
    """BatchNorm running stats cloned on a side stream during training forward"""
    bn = torch.nn.BatchNorm1d(64).cuda()
    x = torch.ones(512, 64, device="cuda")
    s = torch.cuda.Stream()
    bn(x)
    torch.cuda.synchronize()
    torch.cuda._sleep(SLEEP)
    bn(x)  # first
    with torch.cuda.stream(s):
        snap = bn.running_mean.clone()  # second
    torch.cuda.synchronize()
    return snap.sum().item()


def saved_input_overwritten_before_backward():
    """next batch uploaded into the input that backward still reads"""
    w = torch.ones(N, device="cuda", requires_grad=True)
    x = torch.ones(N, device="cuda")
    nxt = torch.full((N,), 9.0).pin_memory()
    copy = torch.cuda.Stream()
    loss = (w * x).sum()
    torch.cuda.synchronize()
    torch.cuda._sleep(SLEEP)
    loss.backward()  # first
    with torch.cuda.stream(copy):
        x.copy_(nxt, non_blocking=True)  # second
    torch.cuda.synchronize()
    return w.grad.sum().item()
