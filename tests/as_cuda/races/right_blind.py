"""Right programs, written by somebody who had never seen the prover."""

import concurrent.futures
import queue
import threading

import numpy as np
import torch

N = 1 << 20
SLEEP = 20_000_000


# ------------------------------------------------------------------ downloads


def download_then_event_synchronize():
    """async download read after event.synchronize()"""
    x = torch.randn(N, device="cuda")
    host = torch.empty(N, pin_memory=True)
    host.copy_(x, non_blocking=True)
    ev = torch.cuda.Event()
    ev.record()
    ev.synchronize()
    return host.sum().item()


def download_then_poll_query():
    """async download read after polling event.query() in a loop"""
    x = torch.randn(N, device="cuda")
    host = x.to("cpu", non_blocking=True)
    ev = torch.cuda.current_stream().record_event()
    spins = 0
    while not ev.query():
        spins += 1
    return float(np.mean(host.numpy())), spins


def download_on_copy_stream_then_stream_synchronize():
    """download on a copy stream, read after that stream's synchronize()"""
    copy = torch.cuda.Stream()
    x = torch.randn(N, device="cuda").mul_(2)
    host = torch.empty(N, pin_memory=True)
    copy.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(copy):
        host.copy_(x, non_blocking=True)
    copy.synchronize()
    return host.max().item()


def many_async_losses_one_sync():
    """per-step losses fetched asynchronously, one device sync at the end"""
    w = torch.zeros(N, device="cuda")
    fetched = []
    for step in range(8):
        w.add_(0.1)
        fetched.append((w - step).square().mean().to("cpu", non_blocking=True))
    torch.cuda.synchronize()
    return [t.item() for t in fetched]


def losses_read_two_steps_late():
    """loss logging that lags by two steps, slots guarded by events"""
    hosts = [torch.empty(1, pin_memory=True) for _ in range(2)]
    events = [torch.cuda.Event() for _ in range(2)]
    w, logged = torch.ones(N, device="cuda"), []
    for step in range(8):
        k = step % 2
        if step >= 2:
            events[k].synchronize()
            logged.append(hosts[k].item())
        w.mul_(0.9)
        hosts[k].copy_(w.sum().reshape(1), non_blocking=True)
        events[k].record()
    torch.cuda.current_stream().synchronize()
    return logged + [h.item() for h in hosts]


def item_on_same_stream_covers_earlier_download():
    """item() on the same stream also completes the earlier async download"""
    x = torch.randn(N, device="cuda")
    host = torch.empty(N, pin_memory=True)
    host.copy_(x, non_blocking=True)
    loss = x.square().mean().item()
    return loss + host.sum().item()


def blocking_copy_covers_earlier_download():
    """a blocking .cpu() after a non_blocking download in one side stream"""
    s = torch.cuda.Stream()
    with torch.cuda.stream(s):
        x = torch.randn(N, device="cuda")
        a = torch.empty(N, pin_memory=True)
        a.copy_(x, non_blocking=True)
        b = (x + 1).cpu()
    return (b - a).mean().item()


def cpu_work_overlapped_with_download():
    """independent CPU work overlapped with an async download"""
    x = torch.randn(N, device="cuda")
    host = torch.empty(N, pin_memory=True)
    done = torch.cuda.Event(blocking=True)
    host.copy_(x, non_blocking=True)
    done.record()
    other = np.sort(np.arange(1000)[::-1])
    done.synchronize()
    return host.numpy().sum() + other.sum()


def pageable_download_is_complete_on_return():
    """non_blocking copy into pageable memory returns after completion"""
    x = torch.full((N,), 2.0, device="cuda")
    host = torch.zeros(N)
    host.copy_(x, non_blocking=True)
    return host.sum().item()


def helper_thread_synchronises_for_main():
    """a helper thread waits for the event and wakes the reader up"""
    x = torch.randn(N, device="cuda")
    host = torch.empty(N, pin_memory=True)
    ev, arrived = torch.cuda.Event(), threading.Event()
    host.copy_(x, non_blocking=True)
    ev.record()

    def waiter():
        ev.synchronize()
        arrived.set()

    th = threading.Thread(target=waiter)
    th.start()
    arrived.wait()
    total = host.sum().item()
    th.join()
    return total


def token_loop_with_stop_flag():
    """decode loop: token downloaded, event awaited, host decides to stop"""
    table = torch.randn(64, 64, device="cuda")
    tok = torch.zeros(1, dtype=torch.long, device="cuda")
    tok_host = torch.empty(1, dtype=torch.long, pin_memory=True)
    ev, seen = torch.cuda.Event(), []
    for _ in range(16):
        tok = table.index_select(0, tok).argmax(1)
        tok_host.copy_(tok, non_blocking=True)
        ev.record()
        ev.synchronize()
        seen.append(int(tok_host[0]))
        if seen[-1] == 0:
            break
    return seen


# -------------------------------------------------------------------- uploads


def to_non_blocking_then_same_stream():
    """.to(non_blocking=True) followed by use on the same stream"""
    batch = torch.randn(256, 64).pin_memory()
    net = torch.nn.Linear(64, 8).cuda()
    x = batch.to("cuda", non_blocking=True)
    return net(x).sum().item()


def pageable_upload_overwritten_after_call():
    """pageable non_blocking upload is staged, the array may change at once"""
    arr = np.ones(N, dtype=np.float32)
    dev = torch.from_numpy(arr).to("cuda", non_blocking=True)
    arr[:] = 5.0
    return dev.sum().item()


def blocking_upload_then_refill():
    """pinned buffer refilled after a blocking upload"""
    pinned = torch.empty(N, pin_memory=True)
    dev, acc = torch.empty(N, device="cuda"), torch.zeros(N, device="cuda")
    for i in range(4):
        pinned.fill_(float(i))
        dev.copy_(pinned)
        acc.add_(dev)
    return acc.sum().item()


def pinned_temporary_freed_early():
    """pinned temporaries dropped at once: the host allocator tracks their use"""
    acc = torch.zeros(N, device="cuda")
    for i in range(8):
        tmp = torch.full((N,), float(i)).pin_memory()
        dev = tmp.to("cuda", non_blocking=True)
        del tmp
        acc.add_(dev)
    return acc.sum().item()


def pinned_double_buffer_with_events():
    """pinned double buffering, refill after the slot's event"""
    stage = [torch.empty(N, pin_memory=True) for _ in range(2)]
    sent = [torch.cuda.Event() for _ in range(2)]
    dev = torch.zeros(6, N, device="cuda")
    for i in range(6):
        k = i % 2
        sent[k].synchronize()
        stage[k].fill_(float(i))
        dev[i].copy_(stage[k], non_blocking=True)
        sent[k].record()
    return dev.sum().item()


def staging_buffers_recycled_through_queue():
    """pool of pinned staging buffers recycled with their events"""
    free = queue.Queue()
    for _ in range(3):
        free.put((torch.empty(N, pin_memory=True), torch.cuda.Event()))
    dev = torch.zeros(9, N, device="cuda")
    main, copy = torch.cuda.current_stream(), torch.cuda.Stream()
    copy.wait_stream(main)
    for i in range(9):
        buf, ev = free.get()
        ev.synchronize()
        buf.fill_(float(i))
        with torch.cuda.stream(copy):
            dev[i].copy_(buf, non_blocking=True)
            ev.record()
        free.put((buf, ev))
    main.wait_stream(copy)
    return dev.sum().item()


def other_half_of_pinned_buffer_written():
    """host writes the half of a pinned buffer that is not in flight"""
    buf = torch.ones(2, N).pin_memory()
    dev = torch.zeros(2, N, device="cuda")
    dev[0].copy_(buf[0], non_blocking=True)
    buf[1].fill_(3.0)
    dev[1].copy_(buf[1], non_blocking=True)
    return dev.sum().item()


def transposed_pinned_source_packed_on_host():
    """transposed pinned source is packed into a temporary before the call returns"""
    pinned = torch.arange(1024 * 1024, dtype=torch.float32).view(1024, 1024).pin_memory()
    dev = torch.empty(1024, 1024, device="cuda")
    dev.copy_(pinned.t(), non_blocking=True)
    pinned.zero_()
    return dev.sum().item()


def cpu_scalar_tensor_read_at_launch():
    """0-dim CPU tensor is read when the kernel is launched"""
    lr = torch.tensor(0.5)
    w = torch.ones(N, device="cuda")
    for _ in range(4):
        w = w * lr
        lr.mul_(0.5)
    return w.sum().item()


def fresh_pinned_index_table_per_step():
    """every step makes its own pinned index table"""
    table = torch.randn(4096, 16, device="cuda")
    out = torch.zeros(16, device="cuda")
    for step in range(4):
        idx = (torch.arange(256) + 256 * step).pin_memory()
        out += table.index_select(0, idx.to("cuda", non_blocking=True)).sum(0)
    return out.sum().item()


def host_registered_memory_reused_after_sync():
    """cudaHostRegister'ed memory refilled after the stream is synchronised"""
    buf = torch.ones(N)
    rt = torch.cuda.cudart()
    rt.cudaHostRegister(buf.data_ptr(), buf.numel() * 4, 0)
    dev = torch.empty(2, N, device="cuda")
    for i in range(2):
        buf.fill_(float(i))
        dev[i].copy_(buf, non_blocking=True)
        torch.cuda.current_stream().synchronize()
    rt.cudaHostUnregister(buf.data_ptr())
    return dev.sum().item()


def dataloader_with_pin_memory():
    """DataLoader with pin_memory and non_blocking uploads"""
    ds = torch.utils.data.TensorDataset(torch.randn(512, 32), torch.randn(512, 1))
    net = torch.nn.Linear(32, 1).cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for xb, yb in torch.utils.data.DataLoader(ds, batch_size=64, pin_memory=True):
        xb = xb.to("cuda", non_blocking=True)
        yb = yb.to("cuda", non_blocking=True)
        loss = torch.nn.functional.mse_loss(net(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


# ------------------------------------------------------- streams and events


def side_stream_round_trip():
    """wait_stream in both directions and record_stream, as in the docs"""
    x = torch.randn(N, device="cuda")
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        y = x * 2
    torch.cuda.current_stream().wait_stream(s)
    y.record_stream(torch.cuda.current_stream())
    z = y + 1
    del y
    return z.sum().item()


def current_stream_wait_event():
    """consumer waits with torch.cuda.current_stream().wait_event"""
    s = torch.cuda.Stream()
    with torch.cuda.stream(s):
        y = torch.randn(N, device="cuda").cumsum(0)
        ev = torch.cuda.Event()
        ev.record()
    torch.cuda.current_stream().wait_event(ev)
    total = y.sum().item()
    return total


def event_chain_is_transitive():
    """main -> s1 -> s2 -> main through record_event, order is transitive"""
    buf = torch.zeros(N, device="cuda")
    main = torch.cuda.current_stream()
    s1, s2 = torch.cuda.Stream(), torch.cuda.Stream()
    s1.wait_event(main.record_event())
    with torch.cuda.stream(s1):
        buf.add_(1)
    s2.wait_event(s1.record_event())
    with torch.cuda.stream(s2):
        buf.mul_(3)
    main.wait_event(s2.record_event())
    buf.sub_(1)
    return buf.sum().item()


def one_event_reused_after_its_wait():
    """one event recorded again only after the waits on it were queued"""
    bufs = [torch.zeros(N, device="cuda") for _ in range(4)]
    main, s, ev = torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Event()
    s.wait_stream(main)
    total = torch.zeros((), device="cuda")
    for i, b in enumerate(bufs):
        with torch.cuda.stream(s):
            b.fill_(float(i))
            ev.record()
        ev.wait()
        total += b.sum()
    return total.item()


def late_event_covers_all_earlier_work():
    """an event recorded last covers all earlier work of its stream"""
    a, b, c = (torch.zeros(N, device="cuda") for _ in range(3))
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        a.fill_(1)
        b.fill_(2)
        c.fill_(3)
        ev = s.record_event()
    ev.wait()
    return (a + b + c).sum().item()


def device_synchronize_instead_of_events():
    """torch.cuda.synchronize() between producer and consumer streams"""
    s1, s2 = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(s1):
        x = torch.randn(N, device="cuda").relu_()
    torch.cuda.synchronize()
    with torch.cuda.stream(s2):
        y = x.sqrt()
    torch.cuda.synchronize()
    return y.sum().item()


def nested_stream_contexts():
    """nested stream contexts with waits at each level"""
    x = torch.randn(N, device="cuda")
    main = torch.cuda.current_stream()
    s1, s2 = torch.cuda.Stream(), torch.cuda.Stream()
    s1.wait_stream(main)
    with torch.cuda.stream(s1):
        a = x + 1
        with torch.cuda.stream(s2):
            s2.wait_stream(s1)
            b = a * 2
        s1.wait_stream(s2)
        c = a + b
    main.wait_stream(s1)
    return c.sum().item()


def set_stream_and_restore():
    """set_stream to a side stream and back, with waits"""
    x = torch.randn(N, device="cuda")
    main, s = torch.cuda.current_stream(), torch.cuda.Stream()
    s.wait_stream(main)
    torch.cuda.set_stream(s)
    y = x.exp()
    torch.cuda.set_stream(main)
    main.wait_stream(s)
    return y.sum().item()


def external_stream_is_the_same_stream():
    """ExternalStream wraps the same raw stream, so order is kept"""
    s = torch.cuda.Stream()
    ext = torch.cuda.ExternalStream(s.cuda_stream)
    with torch.cuda.stream(s):
        y = torch.ones(N, device="cuda")
        y.add_(1)
    with torch.cuda.stream(ext):
        y.mul_(2)
        total = y.sum().item()
    return total


def optional_stream_argument():
    """stream=None makes the context a no-op, all stays on one stream"""

    def scale(x, stream=None):
        with torch.cuda.stream(stream):
            return x * 2

    x = torch.randn(N, device="cuda")
    return (scale(x) + x).sum().item()


def disjoint_halves_on_two_streams():
    """two streams write disjoint halves of one tensor"""
    buf = torch.empty(N, device="cuda")
    main = torch.cuda.current_stream()
    s1, s2 = torch.cuda.Stream(), torch.cuda.Stream()
    for s, half, value in ((s1, buf[: N // 2], 1.0), (s2, buf[N // 2 :], 2.0)):
        s.wait_stream(main)
        with torch.cuda.stream(s):
            half.fill_(value)
    main.wait_stream(s1)
    main.wait_stream(s2)
    return buf.sum().item()


def interleaved_strided_views():
    """even and odd elements written by two streams at once"""
    buf = torch.empty(N, device="cuda")
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        buf[0::2].fill_(1.0)
    buf[1::2].fill_(2.0)
    torch.cuda.current_stream().wait_stream(s)
    return buf.sum().item()


def concurrent_readers():
    """several streams read the same weights at once"""
    w = torch.randn(256, 256, device="cuda")
    torch.cuda.synchronize()
    streams, outs = [torch.cuda.Stream() for _ in range(4)], []
    for s in streams:
        with torch.cuda.stream(s):
            outs.append((w @ w).sum())
    w.sum()
    for s in streams:
        s.synchronize()
    return [o.item() for o in outs]


def chunks_on_streams_and_cat():
    """chunks computed on their own streams, concatenated on main"""
    x = torch.randn(4, N, device="cuda")
    main = torch.cuda.current_stream()
    streams, outs = [torch.cuda.Stream() for _ in range(4)], []
    for chunk, s in zip(x.chunk(4), streams, strict=False):
        s.wait_stream(main)
        with torch.cuda.stream(s):
            outs.append(chunk.sin())
    for s in streams:
        main.wait_stream(s)
    y = torch.cat(outs)
    for o in outs:
        o.record_stream(main)
    del outs, o
    return y.sum().item()


def high_priority_stream_with_waits():
    """high-priority stream joined by events"""
    x = torch.randn(N, device="cuda")
    main, hi = torch.cuda.current_stream(), torch.cuda.Stream(priority=-1)
    hi.wait_stream(main)
    with torch.cuda.stream(hi):
        y = x.tanh()
    main.wait_stream(hi)
    return (x - y).sum().item()


def timing_events():
    """elapsed_time after synchronising the end event"""
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    a = torch.randn(512, 512, device="cuda")
    start.record()
    for _ in range(4):
        a = torch.tanh(a @ a)
    end.record()
    end.synchronize()
    return start.elapsed_time(end), a.sum().item()


def bounce_buffer_with_event():
    """pinned bounce buffer between two streams, ordered both ways"""
    x, y = torch.ones(4, N, device="cuda"), torch.zeros(4, N, device="cuda")
    bounce = torch.empty(N, pin_memory=True)
    down, up = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    for i in range(4):
        down.wait_stream(up)
        with torch.cuda.stream(down):
            bounce.copy_(x[i], non_blocking=True)
        up.wait_stream(down)
        with torch.cuda.stream(up):
            y[i].copy_(bounce, non_blocking=True)
    torch.cuda.current_stream().wait_stream(up)
    return y.sum().item()


# -------------------------------------------------------------- the allocator


def reuse_on_same_stream():
    """freed block reused on the same stream needs no care"""
    x = torch.ones(N, device="cuda")
    for _ in range(8):
        t = x * 2
        x = t + 1
        del t
    return x.sum().item()


def reuse_within_side_stream():
    """temporaries allocated, freed and reused inside one side stream"""
    s = torch.cuda.Stream()
    with torch.cuda.stream(s):
        t = torch.ones(N, device="cuda")
        y = t + 1
        del t
        u = torch.full((N,), 4.0, device="cuda")
        total = (y + u).sum()
    s.synchronize()
    return total.item()


def record_stream_before_free():
    """record_stream on the using stream before the tensor is dropped"""
    x = torch.ones(N, device="cuda")
    y = torch.empty(N, device="cuda")
    main, s = torch.cuda.current_stream(), torch.cuda.Stream()
    s.wait_stream(main)
    with torch.cuda.stream(s):
        torch.cuda._sleep(1_000_000)
        y.copy_(x)
    x.record_stream(s)
    del x
    z = torch.full((N,), 7.0, device="cuda")
    main.wait_stream(s)
    return (y + z).sum().item()


def record_stream_on_a_view():
    """record_stream on a view protects the whole storage"""
    base = torch.ones(4, N, device="cuda")
    out = torch.empty(N, device="cuda")
    main, s = torch.cuda.current_stream(), torch.cuda.Stream()
    s.wait_stream(main)
    with torch.cuda.stream(s):
        row = base[2]
        out.copy_(row)
        row.record_stream(s)
    del base, row
    z = torch.zeros(4, N, device="cuda")
    main.wait_stream(s)
    return out.sum().item() + z.sum().item()


def free_after_owner_stream_rejoined():
    """owner stream waits for the user before the free, no record_stream needed"""
    x = torch.ones(N, device="cuda")
    y = torch.empty(N, device="cuda")
    main, s = torch.cuda.current_stream(), torch.cuda.Stream()
    s.wait_stream(main)
    with torch.cuda.stream(s):
        y.copy_(x)
    main.wait_stream(s)
    del x
    z = torch.full((N,), 7.0, device="cuda")
    return (y + z).sum().item()


def side_stream_waits_before_reusing_its_block():
    """side tensor read on main; the side stream waits before it reuses the block"""
    main, s = torch.cuda.current_stream(), torch.cuda.Stream()
    out = torch.zeros(N, device="cuda")
    for i in range(4):
        s.wait_stream(main)
        with torch.cuda.stream(s):
            t = torch.full((N,), float(i), device="cuda")
        main.wait_stream(s)
        out.add_(t)
        del t
    return out.sum().item()


def fsdp_style_resize_with_record():
    """unsharded storage resized to 0 after the compute stream was recorded"""
    full = torch.ones(N, device="cuda")
    y = torch.zeros(N, device="cuda")
    main, s = torch.cuda.current_stream(), torch.cuda.Stream()
    s.wait_stream(main)
    with torch.cuda.stream(s):
        y.add_(full)
    full.record_stream(s)
    full.untyped_storage().resize_(0)
    z = torch.full((N,), 7.0, device="cuda")
    main.wait_stream(s)
    return (y + z).sum().item()


def empty_cache_between_phases():
    """empty_cache between phases, memory freed after its last use"""
    a = torch.randn(8, N, device="cuda")
    m = a.mean(0)
    del a
    torch.cuda.empty_cache()
    b = torch.zeros(8, N, device="cuda") + m
    return b.sum().item()


def activations_saved_on_pinned_cpu():
    """save_on_cpu(pin_memory=True) around a forward"""
    w = torch.randn(N, device="cuda", requires_grad=True)
    x = torch.randn(N, device="cuda")
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        loss = (w * x).sigmoid().mul(w).sum()
    loss.backward()
    return w.grad.sum().item()


def activation_offload_and_reload():
    """activation offloaded on a copy stream, freed safely, reloaded later"""
    main, off = torch.cuda.current_stream(), torch.cuda.Stream()
    act = torch.randn(N, device="cuda")
    host = torch.empty(N, pin_memory=True)
    off.wait_stream(main)
    with torch.cuda.stream(off):
        host.copy_(act, non_blocking=True)
    act.record_stream(off)
    del act
    busy = torch.ones(N, device="cuda").cumsum(0)
    with torch.cuda.stream(off):
        back = host.to("cuda", non_blocking=True)
    main.wait_stream(off)
    back.record_stream(main)
    return (back * busy).sum().item()


# ----------------------------------------------------- pipelines and prefetchers


def apex_style_prefetcher():
    """prefetcher with wait_stream and record_stream"""

    class Prefetcher:
        def __init__(self, data):
            self.it, self.stream = iter(data), torch.cuda.Stream()
            self.preload()

        def preload(self):
            self.nxt = next(self.it, None)
            if self.nxt is not None:
                with torch.cuda.stream(self.stream):
                    self.nxt = self.nxt.to("cuda", non_blocking=True)

        def next(self):
            torch.cuda.current_stream().wait_stream(self.stream)
            batch = self.nxt
            if batch is not None:
                batch.record_stream(torch.cuda.current_stream())
            self.preload()
            return batch

    out = torch.zeros(N, device="cuda")
    pf = Prefetcher([torch.full((N,), float(i)).pin_memory() for i in range(5)])
    while (b := pf.next()) is not None:
        out.add_(b)
    return out.sum().item()


def generator_prefetch_one_ahead():
    """generator loop that uploads one batch ahead and yields the previous one"""

    def ahead(batches):
        copy, prev = torch.cuda.Stream(), None
        for b in batches:
            with torch.cuda.stream(copy):
                cur = b.to("cuda", non_blocking=True).float().div_(255)
            ev = copy.record_event()
            if prev is not None:
                prev[1].wait()
                prev[0].record_stream(torch.cuda.current_stream())
                yield prev[0]
            prev = (cur, ev)
        prev[1].wait()
        prev[0].record_stream(torch.cuda.current_stream())
        yield prev[0]

    data = [torch.full((N,), i, dtype=torch.uint8).pin_memory() for i in range(4)]
    return sum(x.sum().item() for x in ahead(data))


def device_double_buffer_with_ready_and_free():
    """device double buffer with a ready and a free event per slot"""
    src = [torch.full((N,), float(i)).pin_memory() for i in range(6)]
    bufs = [torch.empty(N, device="cuda") for _ in range(2)]
    ready = [torch.cuda.Event() for _ in range(2)]
    free = [torch.cuda.Event() for _ in range(2)]
    acc = torch.zeros(N, device="cuda")
    main, copy = torch.cuda.current_stream(), torch.cuda.Stream()
    copy.wait_stream(main)
    for i in range(6):
        k = i % 2
        with torch.cuda.stream(copy):
            copy.wait_event(free[k])
            bufs[k].copy_(src[i], non_blocking=True)
            ready[k].record()
        main.wait_event(ready[k])
        acc.add_(bufs[k])
        free[k].record()
    return acc.sum().item()


def weight_streaming_with_events():
    """layer weights streamed into two buffers, reuse guarded by events"""
    layers = [torch.randn(256, 256).mul_(0.05).pin_memory() for _ in range(6)]
    bufs = [torch.empty(256, 256, device="cuda") for _ in range(2)]
    loaded, used = (
        [torch.cuda.Event(), torch.cuda.Event()],
        [torch.cuda.Event(), torch.cuda.Event()],
    )
    h = torch.randn(32, 256, device="cuda")
    main, copy = torch.cuda.current_stream(), torch.cuda.Stream()
    copy.wait_stream(main)

    def load(i):
        copy.wait_event(used[i % 2])
        with torch.cuda.stream(copy):
            bufs[i % 2].copy_(layers[i], non_blocking=True)
        loaded[i % 2].record(copy)

    load(0)
    for i in range(6):
        if i + 1 < 6:
            load(i + 1)
        main.wait_event(loaded[i % 2])
        h = torch.tanh(h @ bufs[i % 2])
        used[i % 2].record(main)
    return h.sum().item()


def three_stage_pipeline():
    """upload, compute and download on three streams with events per item"""
    src = [torch.full((N,), float(i)).pin_memory() for i in range(5)]
    dst = [torch.empty(N, pin_memory=True) for _ in range(5)]
    up, comp, down = (torch.cuda.Stream() for _ in range(3))
    keep = []
    for a, b in zip(src, dst, strict=False):
        with torch.cuda.stream(up):
            x = a.to("cuda", non_blocking=True)
        comp.wait_stream(up)
        with torch.cuda.stream(comp):
            y = x * 2 + 1
        down.wait_stream(comp)
        with torch.cuda.stream(down):
            b.copy_(y, non_blocking=True)
        keep.append((x, y))
    down.synchronize()
    return sum(b.sum().item() for b in dst)


def output_ring_downloaded_by_copy_stream():
    """compute waits for the slot's download before it overwrites the slot"""
    outs = [torch.empty(N, device="cuda") for _ in range(2)]
    hosts = [torch.empty(N, pin_memory=True) for _ in range(6)]
    drained = [torch.cuda.Event() for _ in range(2)]
    x = torch.ones(N, device="cuda")
    main, copy = torch.cuda.current_stream(), torch.cuda.Stream()
    for i in range(6):
        k = i % 2
        main.wait_event(drained[k])
        torch.mul(x, float(i), out=outs[k])
        copy.wait_stream(main)
        with torch.cuda.stream(copy):
            hosts[i].copy_(outs[k], non_blocking=True)
            drained[k].record()
    copy.synchronize()
    return sum(h.sum().item() for h in hosts)


def kv_page_swap_with_events():
    """KV page evicted and replaced on the copy stream, ordered with attention"""
    pages = torch.randn(16, 16, 64, device="cuda")
    evicted = torch.empty(16, 64, pin_memory=True)
    fresh = torch.randn(16, 64).pin_memory()
    table = torch.tensor([3, 7, 1], device="cuda")
    q = torch.randn(1, 1, 4, 64, device="cuda")
    main, copy = torch.cuda.current_stream(), torch.cuda.Stream()

    def attend():
        kv = pages.index_select(0, table).reshape(1, 1, -1, 64)
        return torch.nn.functional.scaled_dot_product_attention(q, kv, kv).sum()

    a = attend()
    copy.wait_event(main.record_event())
    with torch.cuda.stream(copy):
        evicted.copy_(pages[7], non_blocking=True)
        pages[7].copy_(fresh, non_blocking=True)
        swapped = copy.record_event()
    swapped.wait()
    b = attend()
    swapped.synchronize()
    return a.item() + b.item() + evicted.sum().item()


def kv_page_prefetch_into_unused_page():
    """copy stream fills a page that the running attention does not touch"""
    pages = torch.randn(4, 32, 64, device="cuda")
    fresh = torch.randn(32, 64).pin_memory()
    main, copy = torch.cuda.current_stream(), torch.cuda.Stream()
    copy.wait_stream(main)
    with torch.cuda.stream(copy):
        pages[3].copy_(fresh, non_blocking=True)
    q = torch.randn(8, 64, device="cuda")
    early = (q @ pages[:3].reshape(-1, 64).t()).sum()
    main.wait_stream(copy)
    late = (q @ pages[3].t()).sum()
    return (early + late).item()


def embedding_rows_prefetched_after_update():
    """embedding rows gathered on a side stream after the update's event"""
    table = torch.zeros(4096, 64, device="cuda")
    idx = torch.arange(0, 4096, 4, device="cuda")
    main, s = torch.cuda.current_stream(), torch.cuda.Stream()
    total = torch.zeros((), device="cuda")
    for _ in range(3):
        table.index_add_(0, idx, torch.ones(1024, 64, device="cuda"))
        s.wait_stream(main)
        with torch.cuda.stream(s):
            rows = table.index_select(0, idx)
        main.wait_stream(s)
        rows.record_stream(main)
        total += rows.sum()
    return total.item()


# -------------------------------------------------------------------- threads


def worker_with_queue_and_events():
    """tensors handed to a worker's stream together with their ready events"""
    q, results = queue.Queue(), []

    def worker():
        s = torch.cuda.Stream()
        with torch.cuda.stream(s):
            while (item := q.get()) is not None:
                t, ready = item
                s.wait_event(ready)
                results.append(t.square().sum().item())
                del t, item

    th = threading.Thread(target=worker)
    th.start()
    for i in range(4):
        x = torch.full((N,), float(i), device="cuda")
        q.put((x, torch.cuda.current_stream().record_event()))
        del x
    q.put(None)
    th.join()
    return sum(results)


def pool_threads_on_default_stream():
    """pool threads share the default stream with the main thread"""
    x = torch.randn(N, device="cuda").mul_(2)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        futs = [pool.submit(lambda k=k: x * k) for k in range(4)]
        ys = [f.result() for f in futs]
    return torch.stack(ys).sum().item()


def pool_threads_synchronise_their_stream():
    """each pool task synchronises its own stream before it returns"""
    x = torch.randn(N, device="cuda")
    main = torch.cuda.current_stream()

    def work(k):
        s = torch.cuda.Stream()
        s.wait_stream(main)
        with torch.cuda.stream(s):
            y = x * k
        s.synchronize()
        return y

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        ys = list(pool.map(work, range(4)))
    return torch.stack(ys).sum().item()


def pool_tasks_return_tensor_and_event():
    """pool tasks return a tensor and an event, main waits on the device"""
    x = torch.randn(N, device="cuda")
    main = torch.cuda.current_stream()
    ready = main.record_event()

    def work(k):
        s = torch.cuda.Stream()
        s.wait_event(ready)
        with torch.cuda.stream(s):
            y = x + k
            return y, s.record_event()

    total = torch.zeros((), device="cuda")
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for y, done in pool.map(work, range(6)):
            main.wait_event(done)
            y.record_stream(main)
            total += y.sum()
    return total.item()


def pool_initializer_sets_stream():
    """pool initializer sets a stream per thread, tasks end with a sync"""
    batches = [torch.full((N,), float(i)).pin_memory() for i in range(6)]

    def init():
        torch.cuda.set_stream(torch.cuda.Stream())

    def work(b):
        d = b.to("cuda", non_blocking=True)
        out = d.sqrt().to("cpu", non_blocking=True)
        torch.cuda.current_stream().synchronize()
        return out.sum().item()

    with concurrent.futures.ThreadPoolExecutor(2, initializer=init) as pool:
        return sum(pool.map(work, batches))


def barrier_between_record_and_wait():
    """a host barrier makes sure the event is recorded before it is awaited"""
    buf, out = torch.zeros(N, device="cuda"), []
    torch.cuda.synchronize()
    s1, s2, ev = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.Event()
    bar = threading.Barrier(2)

    def producer():
        with torch.cuda.stream(s1):
            buf.fill_(3.0)
            ev.record()
        bar.wait()

    def consumer():
        bar.wait()
        with torch.cuda.stream(s2):
            ev.wait()
            out.append(buf.sum().item())

    ths = [threading.Thread(target=f) for f in (producer, consumer)]
    [t.start() for t in ths]
    [t.join() for t in ths]
    return out[0]


def checkpoint_thread_with_snapshot():
    """device snapshot cloned first, then downloaded by a thread during training"""
    w = torch.randn(N, device="cuda")
    host = torch.empty(N, pin_memory=True)
    saved = []
    snap = w.clone()
    ready = torch.cuda.current_stream().record_event()

    def save():
        s = torch.cuda.Stream()
        with torch.cuda.stream(s):
            s.wait_event(ready)
            host.copy_(snap, non_blocking=True)
        s.synchronize()
        saved.append(host.sum().item())

    th = threading.Thread(target=save)
    th.start()
    for _ in range(10):
        w.mul_(0.9)
    th.join()
    return saved[0], w.sum().item()


def loader_thread_fills_pinned_slots():
    """loader thread refills a pinned slot only after the trainer returned it"""
    free, full = queue.Queue(), queue.Queue()
    for _ in range(2):
        free.put(torch.empty(N, pin_memory=True))

    def loader():
        for i in range(6):
            slot = free.get()
            slot.fill_(float(i))
            full.put(slot)

    th = threading.Thread(target=loader)
    th.start()
    acc = torch.zeros(N, device="cuda")
    for _ in range(6):
        slot = full.get()
        acc.add_(slot.to("cuda", non_blocking=True))
        torch.cuda.current_stream().synchronize()
        free.put(slot)
    th.join()
    return acc.sum().item()


# ---------------------------------------------------------------- CUDA graphs


def graph_capture_with_side_stream_warmup():
    """capture and replay with side-stream warm-up, as in the documentation"""
    g = torch.cuda.CUDAGraph()
    static_input = torch.zeros(N, device="cuda")
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        for _ in range(3):
            static_output = static_input * 2
    torch.cuda.current_stream().wait_stream(s)
    with torch.cuda.graph(g):
        static_output = static_input * 2
    total = 0.0
    for v in (3.0, 4.0):
        static_input.copy_(torch.full((N,), v, device="cuda"))
        g.replay()
        total += static_output.sum().item()
    return total


def whole_network_capture():
    """forward, backward and step captured with static buffers"""
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)
    ).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(128, 64, device="cuda"), torch.randn(128, 1, device="cuda")

    def step():
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        return loss

    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        for _ in range(3):
            opt.zero_grad(set_to_none=True)
            step()
    torch.cuda.current_stream().wait_stream(s)
    g = torch.cuda.CUDAGraph()
    opt.zero_grad(set_to_none=True)
    with torch.cuda.graph(g):
        loss = step()
    for _ in range(5):
        x.copy_(torch.randn(128, 64).pin_memory(), non_blocking=True)
        y.copy_(torch.randn(128, 1, device="cuda"))
        g.replay()
    return loss.item()


def graphed_callables_in_training():
    """make_graphed_callables in an eager training loop"""
    net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU()).cuda()
    head = torch.nn.Linear(64, 1).cuda()
    net = torch.cuda.make_graphed_callables(net, (torch.randn(16, 32, device="cuda"),))
    opt = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.01)
    for _ in range(4):
        opt.zero_grad(set_to_none=True)
        x = torch.randn(16, 32).pin_memory().to("cuda", non_blocking=True)
        loss = head(net(x)).square().mean()
        loss.backward()
        opt.step()
    return loss.item()


def capturable_adam_graph():
    """capturable Adam step captured after warm-up on a side stream"""
    w = torch.randn(1024, device="cuda", requires_grad=True)
    opt = torch.optim.Adam([w], lr=1e-2, capturable=True)
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        for _ in range(3):
            opt.zero_grad(set_to_none=True)
            w.square().sum().backward()
            opt.step()
    torch.cuda.current_stream().wait_stream(s)
    g = torch.cuda.CUDAGraph()
    opt.zero_grad(set_to_none=True)
    with torch.cuda.graph(g):
        w.square().sum().backward()
        opt.step()
    for _ in range(3):
        g.replay()
    return w.detach().sum().item()


def two_graphs_share_a_pool():
    """second graph in the first one's pool, replayed in capture order"""
    x = torch.zeros(N, device="cuda")
    g1, g2 = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(g1):
        mid = (x * 2).relu() + 1
    with torch.cuda.graph(g2, pool=g1.pool()):
        out = (mid * 3).sqrt()
    total = 0.0
    for i in range(3):
        x.fill_(float(i))
        g1.replay()
        g2.replay()
        total += out.sum().item()
    return total


def bucketed_graphs_with_pool_handle():
    """graphs per batch size share graph_pool_handle and run one after the other"""
    pool = torch.cuda.graph_pool_handle()
    static = torch.zeros(64, 128, device="cuda")
    w = torch.randn(128, 128, device="cuda")
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        torch.mm(static, w)
    torch.cuda.current_stream().wait_stream(s)
    graphs = {}
    for n in (64, 16, 4):
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g, pool=pool):
            y = torch.mm(static[:n], w).relu()
        graphs[n] = (g, y)
    total = 0.0
    for n in (4, 64, 16):
        static[:n].copy_(torch.randn(n, 128).pin_memory(), non_blocking=True)
        graphs[n][0].replay()
        total += graphs[n][1].sum().item()
    return total


def fork_and_join_inside_capture():
    """side stream forked and joined inside a capture"""
    x = torch.ones(N, device="cuda")
    s, g = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        main = torch.cuda.current_stream()
        s.wait_stream(main)
        with torch.cuda.stream(s):
            b = x * 3
        a = x + 1
        main.wait_stream(s)
        out = a + b
    x.fill_(2.0)
    g.replay()
    return out.sum().item()


def manual_capture_begin_and_end():
    """capture_begin and capture_end on an explicit stream"""
    x, y = torch.ones(N, device="cuda"), torch.zeros(N, device="cuda")
    s, g = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.stream(s):
        g.capture_begin()
        torch.add(x, 5.0, out=y)
        g.capture_end()
    torch.cuda.current_stream().wait_stream(s)
    g.replay()
    return y.sum().item()


def replay_on_side_stream_with_waits():
    """graph replayed on a side stream between two waits"""
    x = torch.zeros(N, device="cuda")
    main, s, g = torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y = x.square() + 1
    new = torch.full((N,), 3.0, device="cuda")
    s.wait_stream(main)
    with torch.cuda.stream(s):
        x.copy_(new)
        g.replay()
        res = y.clone()
    main.wait_stream(s)
    res.record_stream(main)
    return res.sum().item()


def captured_upload_and_download():
    """captured upload and download, host waits for the stream each round"""
    pin_in, pin_out = torch.empty(N, pin_memory=True), torch.empty(N, pin_memory=True)
    dev = torch.empty(N, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        dev.copy_(pin_in, non_blocking=True)
        y = dev * 2
        pin_out.copy_(y, non_blocking=True)
    total = 0.0
    for i in range(4):
        pin_in.fill_(float(i))
        g.replay()
        torch.cuda.current_stream().synchronize()
        total += pin_out.sum().item()
    return total


def next_graph_input_staged_during_replay():
    """next input uploaded to a staging buffer while the graph runs"""
    src = [torch.full((N,), float(i)).pin_memory() for i in range(5)]
    static, staging = torch.zeros(N, device="cuda"), torch.empty(N, device="cuda")
    acc = torch.zeros(N, device="cuda")
    main, copy = torch.cuda.current_stream(), torch.cuda.Stream()
    ready, consumed, g = torch.cuda.Event(), torch.cuda.Event(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        acc.add_(static.sqrt())
    copy.wait_stream(main)
    for b in src:
        with torch.cuda.stream(copy):
            copy.wait_event(consumed)
            staging.copy_(b, non_blocking=True)
            ready.record()
        main.wait_event(ready)
        static.copy_(staging)
        consumed.record()
        g.replay()
    return acc.sum().item()


def graph_input_refilled_from_side_after_replay():
    """side stream waits for the replay before it refills the static input"""
    x = torch.zeros(N, device="cuda")
    src = [torch.full((N,), float(i)).pin_memory() for i in range(4)]
    main, side, g = torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.CUDAGraph()
    acc = torch.zeros(N, device="cuda")
    with torch.cuda.graph(g):
        acc.add_(x)
    for b in src:
        side.wait_stream(main)
        with torch.cuda.stream(side):
            x.copy_(b, non_blocking=True)
        main.wait_stream(side)
        g.replay()
    return acc.sum().item()


def graph_output_cloned_before_next_replay():
    """outputs cloned on the same stream before the next replay"""
    x = torch.zeros(N, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        x.add_(1)
        y = x * 2
    outs = []
    for _ in range(3):
        g.replay()
        outs.append(y.clone())
    return [o.sum().item() for o in outs]


def same_graph_launched_on_two_streams():
    """launches of one executable graph are serialised by CUDA"""
    acc = torch.zeros(N, device="cuda")
    main, g = torch.cuda.current_stream(), torch.cuda.CUDAGraph()
    s1, s2 = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.graph(g):
        acc.add_(1)
    torch.cuda.synchronize()
    with torch.cuda.stream(s1):
        g.replay()
    with torch.cuda.stream(s2):
        g.replay()
    main.wait_stream(s1)
    main.wait_stream(s2)
    return acc.sum().item()


def independent_graphs_on_two_streams():
    """graphs with separate pools and buffers replayed concurrently"""
    main, parts = torch.cuda.current_stream(), []
    for i in range(2):
        x, g, s = (
            torch.full((N,), float(i), device="cuda"),
            torch.cuda.CUDAGraph(),
            torch.cuda.Stream(),
        )
        with torch.cuda.graph(g):
            y = (x * 2) + 1
        parts.append((x, y, g, s))
    for _, _, g, s in parts:
        s.wait_stream(main)
        with torch.cuda.stream(s):
            g.replay()
    for p in parts:
        main.wait_stream(p[3])
    return sum(p[1].sum() for p in parts).item()


# ------------------------------------------------------- autograd and optimizers


def forward_on_side_backward_on_main():
    """forward on a side stream, backward() from main, grads used on main"""
    w = torch.randn(N, device="cuda", requires_grad=True)
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        loss = (w * w).sum()
    loss.backward()
    return w.grad.sum().item()


def backward_on_side_then_wait():
    """backward() in a side stream context, main waits before using grads"""
    w = torch.randn(N, device="cuda", requires_grad=True)
    main, s = torch.cuda.current_stream(), torch.cuda.Stream()
    s.wait_stream(main)
    with torch.cuda.stream(s):
        loss = w.exp().sum()
        loss.backward()
    main.wait_stream(s)
    with torch.no_grad():
        w.sub_(w.grad, alpha=0.1)
    return w.sum().item()


def initial_gradient_ordered_for_side_backward():
    """initial gradient filled on main, side stream waits before backward"""
    w = torch.ones(N, device="cuda", requires_grad=True)
    main, s = torch.cuda.current_stream(), torch.cuda.Stream()
    s.wait_stream(main)
    with torch.cuda.stream(s):
        y = w * 3
    g0 = torch.full((N,), 2.0, device="cuda")
    s.wait_stream(main)
    with torch.cuda.stream(s):
        y.backward(gradient=g0)
    main.wait_stream(s)
    return w.grad.sum().item()


def two_branches_on_streams_one_backward():
    """two branches on two streams joined on main, one backward"""
    w = torch.randn(N, device="cuda", requires_grad=True)
    main = torch.cuda.current_stream()
    s1, s2 = torch.cuda.Stream(), torch.cuda.Stream()
    s1.wait_stream(main)
    s2.wait_stream(main)
    with torch.cuda.stream(s1):
        a = w * 2
    with torch.cuda.stream(s2):
        b = w.sin()
    main.wait_stream(s1)
    main.wait_stream(s2)
    loss = (a * b).sum()
    loss.backward()
    return w.grad.sum().item()


def gradient_accumulation():
    """gradient accumulation over pinned micro-batches"""
    net = torch.nn.Linear(32, 1).cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for step in range(8):
        x = torch.randn(64, 32).pin_memory().to("cuda", non_blocking=True)
        (net(x).square().mean() / 4).backward()
        if step % 4 == 3:
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            opt.zero_grad(set_to_none=True)
    return net.weight.sum().item()


def gradient_offload_hook():
    """post-accumulate hook offloads the gradient on a copy stream"""
    w = torch.randn(N, device="cuda", requires_grad=True)
    host = torch.empty(N, pin_memory=True)
    copy = torch.cuda.Stream()

    def hook(p):
        copy.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(copy):
            host.copy_(p.grad, non_blocking=True)
        p.grad.record_stream(copy)
        p.grad = None

    w.register_post_accumulate_grad_hook(hook)
    w.square().sum().backward()
    copy.synchronize()
    return host.sum().item()


def custom_function_forks_and_joins():
    """custom autograd function that forks to a side stream and joins again"""
    side = torch.cuda.Stream()

    def on_side(t):
        cur = torch.cuda.current_stream()
        side.wait_stream(cur)
        with torch.cuda.stream(side):
            out = t * 2
        t.record_stream(side)
        out.record_stream(cur)
        cur.wait_stream(side)
        return out

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return on_side(x)

        @staticmethod
        def backward(ctx, g):
            return on_side(g)

    w = torch.randn(N, device="cuda", requires_grad=True)
    Double.apply(w).square().sum().backward()
    return w.grad.sum().item()


def amp_training_step():
    """autocast and GradScaler on one stream"""
    net = torch.nn.Linear(64, 64).cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(3):
        opt.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(torch.randn(32, 64, device="cuda")).float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
    return loss.item()


def ema_on_side_stream_between_steps():
    """EMA on a side stream, waits after the step and before the next one"""
    w = torch.randn(N, device="cuda", requires_grad=True)
    ema = w.detach().clone()
    opt = torch.optim.SGD([w], lr=0.1)
    main, s, ema_done = torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Event()
    for _ in range(4):
        opt.zero_grad()
        w.square().sum().backward()
        main.wait_event(ema_done)
        opt.step()
        s.wait_stream(main)
        with torch.cuda.stream(s):
            ema.lerp_(w.detach(), 0.1)
            ema_done.record()
    main.wait_stream(s)
    return ema.sum().item()


def parameter_download_between_steps():
    """parameter download on a copy stream, next step waits for its event"""
    w = torch.randn(N, device="cuda", requires_grad=True)
    hosts = [torch.empty(N, pin_memory=True) for _ in range(3)]
    opt = torch.optim.SGD([w], lr=0.1)
    copy, copied = torch.cuda.Stream(), torch.cuda.Event()
    for h in hosts:
        opt.zero_grad()
        w.exp().sum().backward()
        copied.wait()
        opt.step()
        copy.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(copy):
            h.copy_(w.detach(), non_blocking=True)
            copied.record()
    copied.synchronize()
    return [h.sum().item() for h in hosts]


def pinned_ring_waits_for_other_slot():
    """ring of pinned stages on two streams: the later upload's event is awaited"""
    stage = [torch.zeros(N, pin_memory=True) for _ in range(2)]
    dev = torch.empty(4, N, device="cuda")
    streams = [torch.cuda.Stream() for _ in range(2)]
    done = [torch.cuda.Event() for _ in range(2)]
    torch.cuda.synchronize()
    for i in range(4):
        k = i % 2
        done[1 - k].synchronize()
        stage[k].fill_(float(i))
        with torch.cuda.stream(streams[k]):
            torch.cuda._sleep(SLEEP * (4 - 3 * k))
            dev[i].copy_(stage[k], non_blocking=True)
            done[k].record()
    torch.cuda.synchronize()
    return dev.sum().item()
