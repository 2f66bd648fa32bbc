"""Right programs: their accesses to shared memory are ordered among streams, threads and graphs."""

import queue
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import debubble


def _warm_up(run, times=3):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(times):
            run()
    torch.cuda.current_stream().wait_stream(side)


def _captured(run, **options):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, **options):
        out = run()
    return graph, out


def _model():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)).cuda()


def _pinned(*shape):
    return torch.zeros(*shape, pin_memory=True)


# Graphs.


def graph_of_one_operator():
    x = torch.ones(4, device="cuda")
    graph, y = _captured(lambda: x * 2)
    graph.replay()
    y.sum().item()


def graph_with_warm_up_and_static_input():
    model, static = _model(), torch.zeros(2, 4, device="cuda")
    with torch.no_grad():
        _warm_up(lambda: model(static))
        graph, out = _captured(lambda: model(static))
    for value in range(3):
        static.fill_(value)
        graph.replay()
        out.sum().item()


def graph_fed_by_pinned_uploads():
    static, host = torch.zeros(4, device="cuda"), _pinned(3, 4)
    graph, out = _captured(lambda: static * 2)
    results = []
    for row in host:
        static.copy_(row, non_blocking=True)
        graph.replay()
        results.append(out.clone())
    torch.stack(results).sum().item()


def graph_whose_outputs_are_downloaded_behind_events():
    static = torch.zeros(4, device="cuda")
    graph, out = _captured(lambda: static + 1)
    for value in range(3):
        static.fill_(value)
        graph.replay()
        host, done = out.to("cpu", non_blocking=True), torch.cuda.Event()
        done.record()
        done.synchronize()
        host.tolist()


def graph_of_a_whole_training_step():
    model, loss_of = _model(), nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(8, 4, device="cuda"), torch.randn(8, 4, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    _warm_up(step)
    optimizer.zero_grad(set_to_none=True)
    graph, loss = _captured(step)
    for _ in range(3):
        x.copy_(torch.randn(8, 4, device="cuda"))
        y.copy_(torch.randn(8, 4, device="cuda"))
        graph.replay()
    loss.item()


def graph_of_forward_and_backward_with_an_eager_optimizer():
    model, loss_of = _model(), nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters())
    x, y = torch.randn(8, 4, device="cuda"), torch.randn(8, 4, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(x), y)
        loss.backward()
        return loss

    _warm_up(step)
    graph, loss = _captured(step)
    for _ in range(3):
        graph.replay()
        optimizer.step()
    loss.item()


def graphed_callables_in_a_training_loop():
    first, second = nn.Linear(4, 8).cuda(), nn.Linear(8, 4).cuda()
    x, h = torch.randn(8, 4, device="cuda"), torch.randn(8, 8, device="cuda", requires_grad=True)
    first = torch.cuda.make_graphed_callables(first, (x,))
    second = torch.cuda.make_graphed_callables(second, (h,))
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad(set_to_none=True)
        loss = second(first(torch.randn(8, 4, device="cuda")).relu()).square().mean()
        loss.backward()
        optimizer.step()
    loss.item()


def graphed_callables_of_a_tuple():
    parts = (nn.Linear(4, 4).cuda(), nn.Linear(4, 4).cuda())
    samples = tuple((torch.randn(2, 4, device="cuda", requires_grad=True),) for _ in parts)
    one, two = torch.cuda.make_graphed_callables(parts, samples)
    out = two(one(torch.randn(2, 4, device="cuda")))
    out.sum().backward()
    out.sum().item()


def graphed_callable_without_gradients():
    model, x = _model(), torch.randn(2, 4, device="cuda")
    graphed = torch.cuda.make_graphed_callables(model, (x,))
    with torch.no_grad():
        sum(graphed(torch.randn(2, 4, device="cuda")).sum().item() for _ in range(3))


def partial_graphs_around_an_eager_part():
    x = torch.ones(4, device="cuda")
    first, middle = _captured(lambda: x * 2)
    between = torch.empty(4, device="cuda")
    second, out = _captured(lambda: between + 1)
    for _ in range(3):
        first.replay()
        if middle.sum().item() > 0:
            between.copy_(middle.relu())
        second.replay()
    out.tolist()


def two_graphs_that_share_a_pool():
    x = torch.ones(4, device="cuda")
    first, middle = _captured(lambda: x * 2)
    second, out = _captured(lambda: middle + 1, pool=first.pool())
    for value in range(3):
        x.fill_(value)
        first.replay()
        second.replay()
    out.tolist()


def graphs_for_batch_sizes_with_one_static_buffer():
    static = torch.zeros(8, 4, device="cuda")
    graphs, pool = {}, torch.cuda.graph_pool_handle()
    for size in (8, 4, 2):
        graphs[size] = _captured(lambda size=size: static[:size] * 2, pool=pool)
    for size in (2, 8, 4):
        static[:size].copy_(torch.full((size, 4), float(size)))
        graph, out = graphs[size]
        graph.replay()
        out.sum().item()


def graph_with_side_streams_as_data_parallel_has():
    x = torch.ones(4, device="cuda")
    main, reduce = torch.cuda.current_stream(), torch.cuda.Stream()
    buckets = [torch.zeros(4, device="cuda") for _ in range(2)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for bucket in buckets:
            bucket.copy_(x * 2)
            reduce.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(reduce):
                bucket.mul_(0.5)
        torch.cuda.current_stream().wait_stream(reduce)
        total = buckets[0] + buckets[1]
    graph.replay()
    assert main == torch.cuda.current_stream()
    total.sum().item()


def graph_with_two_branches_and_events():
    x = torch.ones(4, device="cuda")
    left, right = torch.cuda.Stream(), torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fork, joins = torch.cuda.Event(), []
        fork.record()
        parts = []
        for branch in (left, right):
            with torch.cuda.stream(branch):
                branch.wait_event(fork)
                parts.append(x * 2)
                join = torch.cuda.Event()
                join.record()
                joins.append(join)
        for join in joins:
            torch.cuda.current_stream().wait_event(join)
        out = parts[0] + parts[1]
    for _ in range(2):
        x.add_(1)
        graph.replay()
    out.tolist()


def graph_captured_on_a_given_stream_that_is_waited_for():
    stream, x = torch.cuda.Stream(), torch.ones(4, device="cuda")
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        graph, out = _captured(lambda: x + 1, stream=stream)
        graph.replay()
    torch.cuda.current_stream().wait_stream(stream)
    out.sum().item()


def graph_replayed_on_a_side_stream_that_waits():
    static, side = torch.zeros(4, device="cuda"), torch.cuda.Stream()
    graph, out = _captured(lambda: static * 2)
    for value in range(3):
        static.fill_(value)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            graph.replay()
        torch.cuda.current_stream().wait_stream(side)
        out.sum().item()


def graph_by_capture_begin_and_end():
    stream, x = torch.cuda.Stream(), torch.ones(4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        graph.capture_begin()
        y = x * 3
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    graph.replay()
    y.tolist()


def graph_with_dropout():
    dropout, x = nn.Dropout(), torch.ones(64, device="cuda")
    _warm_up(lambda: dropout(x))
    graph, out = _captured(lambda: dropout(x))
    for _ in range(2):
        graph.replay()
        out.sum().item()


def graph_with_a_kv_cache_written_by_index():
    cache = torch.zeros(16, 4, device="cuda")
    slot, token = torch.zeros(1, dtype=torch.long, device="cuda"), torch.zeros(1, 4, device="cuda")

    def step():
        cache.index_copy_(0, slot, token)
        return cache.sum(0)

    graph, out = _captured(step)
    for position in range(3):
        slot.fill_(position)
        token.fill_(position)
        graph.replay()
        out.tolist()


def graph_with_an_input_that_is_kept():
    class Runner:
        def __init__(self):
            self.x = torch.zeros(4, device="cuda")
            self.graph, self.out = _captured(lambda: self.x * 2)

        def __call__(self, x):
            self.x.copy_(x)
            self.graph.replay()
            return self.out.clone()

    runner = Runner()
    outs = [runner(torch.full((4,), float(n))) for n in range(3)]
    torch.stack(outs).tolist()


def graph_whose_output_has_a_view_from_before_its_replays():
    x = torch.zeros(4, device="cuda")
    graph, out = _captured(lambda: x * 2)
    graph.replay()
    view = out[:2]
    for value in range(3):
        x.fill_(value)
        graph.replay()
        (view + out[2:]).tolist()
        (view - out[:2]).tolist()


def graph_captured_again_after_reset():
    x = torch.ones(4, device="cuda")
    graph, out = _captured(lambda: x * 2)
    graph.replay()
    out.tolist()
    graph.reset()
    with torch.cuda.graph(graph):
        out = x * 3
    graph.replay()
    out.tolist()


def graph_with_a_captured_download():
    x, host, done = torch.ones(4, device="cuda"), _pinned(4), torch.cuda.Event()

    def step():
        host.copy_(x * 2, non_blocking=True)

    graph, _ = _captured(step)
    for _ in range(3):
        graph.replay()
        done.record()
        done.synchronize()
        host.tolist()


def graph_with_a_captured_upload():
    x, host = torch.zeros(4, device="cuda"), _pinned(4)

    def step():
        x.copy_(host, non_blocking=True)
        return x + 1

    graph, out = _captured(step)
    for value in range(3):
        host.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        out.tolist()


def graphs_of_two_streams_that_take_turns():
    x, streams = torch.ones(4, device="cuda"), [torch.cuda.Stream(), torch.cuda.Stream()]
    graphs = [_captured(lambda: x.add_(1)) for _ in streams]
    last = torch.cuda.current_stream()
    for turn in range(4):
        stream = streams[turn % 2]
        stream.wait_stream(last)
        with torch.cuda.stream(stream):
            graphs[turn % 2][0].replay()
        last = stream
    torch.cuda.current_stream().wait_stream(last)
    x.tolist()


def graph_beside_other_work_on_a_side_stream():
    x, z = torch.zeros(4, device="cuda"), torch.ones(4, device="cuda")
    graph, out = _captured(lambda: x * 2)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    graph.replay()
    with torch.cuda.stream(side):
        z.mul_(3)
    torch.cuda.current_stream().wait_stream(side)
    (out + z).tolist()


def graph_whose_weights_two_streams_read():
    model, streams = nn.Linear(4, 4).cuda(), [torch.cuda.Stream(), torch.cuda.Stream()]
    inputs = [torch.ones(2, 4, device="cuda") for _ in streams]
    with torch.no_grad():
        graphs = [_captured(lambda x=x: model(x)) for x in inputs]
    for stream, (graph, _) in zip(streams, graphs, strict=True):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            graph.replay()
    torch.cuda.synchronize()
    (graphs[0][1] + graphs[1][1]).tolist()


# Uploads and prefetchers.


def prefetcher_of_one_batch():
    class Prefetcher:
        def __init__(self, batches):
            self.batches, self.stream = iter(batches), torch.cuda.Stream()
            self.load()

        def load(self):
            batch = next(self.batches, None)
            self.next = None
            if batch is not None:
                with torch.cuda.stream(self.stream):
                    self.next = batch.cuda(non_blocking=True).float().div_(255)

        def __iter__(self):
            while self.next is not None:
                torch.cuda.current_stream().wait_stream(self.stream)
                batch = self.next
                batch.record_stream(torch.cuda.current_stream())
                self.load()
                yield batch

    batches = [torch.ones(8, dtype=torch.uint8).pin_memory() for _ in range(4)]
    total = torch.zeros((), device="cuda")
    for batch in Prefetcher(batches):
        total += batch.sum()
    total.item()


def loader_with_pinned_batches():
    data = TensorDataset(torch.randn(16, 4), torch.randint(0, 2, (16,)))
    model, loss_of = nn.Linear(4, 2).cuda(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(data, batch_size=4, pin_memory=True):
        x, y = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()


def fresh_pinned_copies():
    out = [torch.full((4,), float(n)).pin_memory().cuda(non_blocking=True) for n in range(4)]
    torch.stack(out).tolist()


def two_device_buffers_with_events():
    buffers = [torch.empty(4, device="cuda") for _ in range(2)]
    loaded, used = ([torch.cuda.Event() for _ in range(2)] for _ in range(2))
    copy, host = torch.cuda.Stream(), _pinned(6, 4)
    copy.wait_stream(torch.cuda.current_stream())
    total = torch.zeros(4, device="cuda")
    for n, row in enumerate(host):
        at = n % 2
        with torch.cuda.stream(copy):
            copy.wait_event(used[at])
            buffers[at].copy_(row, non_blocking=True)
            loaded[at].record()
        torch.cuda.current_stream().wait_event(loaded[at])
        total += buffers[at]
        used[at].record()
    total.tolist()


def pinned_ring_with_events():
    ring = [(_pinned(4), torch.cuda.Event()) for _ in range(3)]
    outs = []
    for n in range(8):
        host, free = ring[n % 3]
        free.synchronize()
        host.fill_(n)
        outs.append(host.to("cuda", non_blocking=True))
        free.record()
    torch.stack(outs).tolist()


def pinned_ring_that_asks_before_it_reuses():
    free, busy, outs = deque(_pinned(4) for _ in range(2)), deque(), []
    for n in range(6):
        while not free or (busy and busy[0][1].query()):
            host, done = busy.popleft()
            done.synchronize()
            free.append(host)
        host = free.popleft()
        host.fill_(n)
        outs.append(host.to("cuda", non_blocking=True))
        done = torch.cuda.Event()
        done.record()
        busy.append((host, done))
    torch.stack(outs).tolist()


def pinned_buffer_reused_after_item():
    host, x = _pinned(4), torch.zeros(4, device="cuda")
    for value in range(3):
        host.fill_(value)
        x.copy_(host, non_blocking=True)
        x.sum().item()


def pinned_buffer_reused_after_synchronize():
    host, x = _pinned(4), torch.zeros(4, device="cuda")
    for value in range(3):
        host.numpy()[:] = value
        x.copy_(host, non_blocking=True)
        torch.cuda.synchronize()


def pinned_buffer_in_parts():
    host = _pinned(8)
    outs = []
    for n in range(4):
        part = host[2 * n : 2 * n + 2]
        part.fill_(n)
        outs.append(part.to("cuda", non_blocking=True))
    torch.cat(outs).tolist()


def pinned_buffer_with_a_blocking_copy():
    host = _pinned(4)
    outs = []
    for n in range(4):
        host.fill_(n)
        outs.append(host.to("cuda"))
    torch.stack(outs).tolist()


def pageable_memory_overwritten_at_once():
    host, outs = torch.zeros(4), []
    for n in range(4):
        host.fill_(n)
        outs.append(host.to("cuda", non_blocking=True))
    torch.stack(outs).tolist()


def upload_on_a_copy_stream_with_record_stream():
    copy = torch.cuda.Stream()
    for n in range(3):
        with torch.cuda.stream(copy):
            x = torch.full((4,), float(n)).pin_memory().cuda(non_blocking=True)
        torch.cuda.current_stream().wait_stream(copy)
        x.record_stream(torch.cuda.current_stream())
        (x * 2).sum().item()


def numpy_view_filled_before_the_upload():
    host = _pinned(4)
    view = host.numpy()
    view[:] = np.arange(4)
    x = host.to("cuda", non_blocking=True)
    x.tolist()
    view[:] = 7


# Downloads.


def download_behind_an_event():
    x = torch.ones(4, device="cuda")
    host, done = x.to("cpu", non_blocking=True), torch.cuda.Event()
    done.record()
    done.synchronize()
    host.tolist()


def download_behind_the_stream():
    host = torch.ones(4, device="cuda").to("cpu", non_blocking=True)
    torch.cuda.current_stream().synchronize()
    host.tolist()


def download_asked_for_until_it_is_there():
    host, done = torch.ones(4, device="cuda").to("cpu", non_blocking=True), torch.cuda.Event()
    done.record()
    while not done.query():
        pass
    host.numpy().sum()


def downloads_one_step_late():
    x, pending, read = torch.zeros(4, device="cuda"), None, []
    for _ in range(4):
        x.add_(1)
        host, done = x.to("cpu", non_blocking=True), torch.cuda.Event()
        done.record()
        if pending is not None:
            pending[1].synchronize()
            read.append(pending[0].tolist())
        pending = host, done
    pending[1].synchronize()
    pending[0].tolist()


def download_on_a_copy_stream():
    copy, main = torch.cuda.Stream(), torch.cuda.current_stream()
    x, host = torch.ones(4, device="cuda"), _pinned(4)
    for _ in range(3):
        x = x * 2
        copy.wait_stream(main)
        with torch.cuda.stream(copy):
            host.copy_(x, non_blocking=True)
            x.record_stream(copy)
        copy.synchronize()
        host.tolist()


def download_into_a_ring():
    x, ring = torch.zeros(4, device="cuda"), [(_pinned(4), torch.cuda.Event()) for _ in range(2)]
    for n in range(6):
        host, done = ring[n % 2]
        if n >= 2:
            done.synchronize()
            host.tolist()
        x.add_(1)
        host.copy_(x, non_blocking=True)
        done.record()
    torch.cuda.synchronize()


def download_into_pageable_memory():
    host = torch.empty(4)
    host.copy_(torch.ones(4, device="cuda"), non_blocking=True)
    host.tolist()


def round_trip_on_one_stream():
    x, host = torch.ones(4, device="cuda"), _pinned(4)
    host.copy_(x, non_blocking=True)
    host.to("cuda", non_blocking=True).add(1).tolist()


def round_trip_by_two_streams():
    x, host = torch.ones(4, device="cuda"), _pinned(4)
    out, back = torch.cuda.Stream(), torch.cuda.Stream()
    out.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(out):
        host.copy_(x, non_blocking=True)
    back.wait_stream(out)
    with torch.cuda.stream(back):
        y = host.to("cuda", non_blocking=True)
    torch.cuda.current_stream().wait_stream(back)
    y.tolist()


def activations_offloaded_and_brought_back():
    copy, main, kept = torch.cuda.Stream(), torch.cuda.current_stream(), []
    for n in range(3):
        x, host = torch.full((4,), float(n), device="cuda"), _pinned(4)
        copy.wait_stream(main)
        with torch.cuda.stream(copy):
            host.copy_(x, non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        x.record_stream(copy)
        kept.append((host, done))
    for host, done in reversed(kept):
        main.wait_event(done)
        host.to("cuda", non_blocking=True).mul_(2)
    torch.cuda.synchronize()


# Streams.


def side_stream_forked_and_joined():
    x, side = torch.ones(4, device="cuda"), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    torch.cuda.current_stream().wait_stream(side)
    (x + y).sum().item()


def side_stream_joined_by_the_host():
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        y = torch.ones(4, device="cuda") * 2
    side.synchronize()
    y.add_(1).tolist()


def many_streams_of_independent_work():
    streams, outs = [torch.cuda.Stream() for _ in range(3)], []
    for stream in streams:
        with torch.cuda.stream(stream):
            outs.append(torch.ones(4, device="cuda").mul_(3).sum())
    torch.cuda.synchronize()
    torch.stack(outs).tolist()


def many_streams_that_read_one_tensor():
    x, streams, outs = torch.ones(4, device="cuda"), [torch.cuda.Stream() for _ in range(3)], []
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            outs.append(x.sum())
    for stream in streams:
        torch.cuda.current_stream().wait_stream(stream)
    torch.stack(outs).tolist()


def many_streams_that_write_parts_of_one_tensor():
    x, out = torch.ones(4, 8, device="cuda"), torch.empty(4, 8, device="cuda")
    streams = [torch.cuda.Stream() for _ in range(4)]
    for n, stream in enumerate(streams):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            out[:, n].copy_(x[:, n] * 2)
            out[:, n + 4].copy_(x[:, n + 4] * 2)
    for stream in streams:
        torch.cuda.current_stream().wait_stream(stream)
    out.sum().item()


def two_device_buffers_in_one_tensor():
    buffers, host = torch.zeros(2, 8, device="cuda"), _pinned(6, 8)
    copy = torch.cuda.Stream()
    copy.wait_stream(torch.cuda.current_stream())
    loaded, used = ([torch.cuda.Event() for _ in range(2)] for _ in range(2))
    for n, row in enumerate(host):
        with torch.cuda.stream(copy):
            copy.wait_event(used[n % 2])
            buffers[n % 2].copy_(row, non_blocking=True)
            loaded[n % 2].record()
        torch.cuda.current_stream().wait_event(loaded[n % 2])
        buffers[n % 2].sum()
        used[n % 2].record()
    torch.cuda.synchronize()


def rows_written_by_index_beside_rows_that_are_read():
    table, side = torch.zeros(8, 4, device="cuda"), torch.cuda.Stream()
    mine, others = (torch.tensor(n, device="cuda") for n in ([0, 2], [5, 7]))
    rows = torch.ones(2, 4, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        table.index_copy_(0, others, rows)
    table.index_select(0, mine).sum().item()
    table[mine] = rows
    torch.cuda.synchronize()


def branches_of_a_graph_that_write_parts():
    x, out = torch.ones(2, 8, device="cuda"), torch.empty(2, 8, device="cuda")
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        side.wait_stream(torch.cuda.current_stream())
        out[0].copy_(x[0])
        with torch.cuda.stream(side):
            out[1].copy_(x[1])
        torch.cuda.current_stream().wait_stream(side)
    graph.replay()
    out.tolist()


def graphs_of_two_streams_on_parts_of_one_tensor():
    state, graphs = torch.zeros(2, 8, device="cuda"), []
    for row in state:
        graphs.append(_captured(lambda row=row: row.add_(1)))
    for graph, _ in graphs:
        with torch.cuda.stream(torch.cuda.Stream()):
            graph.replay()
    torch.cuda.synchronize()


def backward_on_the_stream_of_the_forward():
    side, x = torch.cuda.Stream(), torch.ones(4, device="cuda", requires_grad=True)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        (x * 2).sum().backward()
    torch.cuda.current_stream().wait_stream(side)
    x.grad.tolist()


def gradients_reduced_on_a_stream_by_hooks():
    model, reduce = nn.Linear(4, 4).cuda(), torch.cuda.Stream()

    def hook(parameter):
        reduce.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(reduce):
            parameter.grad.mul_(0.5)

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad(set_to_none=False)
        model(torch.ones(2, 4, device="cuda")).sum().backward()
        torch.cuda.current_stream().wait_stream(reduce)
        optimizer.step()


def record_stream_for_a_tensor_that_is_dropped():
    side = torch.cuda.Stream()
    for _ in range(3):
        x = torch.ones(4, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x.mul(2)
        x.record_stream(side)
        del x
        torch.zeros(4, device="cuda")


def tensor_held_until_the_join():
    side, held = torch.cuda.Stream(), []
    for _ in range(3):
        x = torch.ones(4, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            held.append((x, x.mul(2)))
    torch.cuda.current_stream().wait_stream(side)
    held.clear()
    torch.zeros(4, device="cuda").tolist()


def buffer_asked_for_here_and_written_on_a_stream_that_waits():
    side = torch.cuda.Stream()
    torch.ones(4, device="cuda").mul(2)
    buffer = torch.empty(4, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        buffer.fill_(1)
    torch.cuda.current_stream().wait_stream(side)
    buffer.tolist()


def buffer_asked_for_on_the_stream_that_writes_it():
    side = torch.cuda.Stream()
    torch.ones(4, device="cuda").mul(2)
    with torch.cuda.stream(side):
        buffer = torch.empty(4, device="cuda").fill_(1)
    torch.cuda.current_stream().wait_stream(side)
    buffer.tolist()


def buffer_of_new_memory_written_on_another_stream():
    side, kept = torch.cuda.Stream(), torch.ones(4, device="cuda")
    buffer = torch.empty(4, device="cuda")
    with torch.cuda.stream(side):
        buffer.fill_(1)
    torch.cuda.current_stream().wait_stream(side)
    (buffer + kept).tolist()


def pipeline_of_three_streams():
    up, run, down = (torch.cuda.Stream() for _ in range(3))
    host, results = _pinned(4, 4), _pinned(4, 4)
    kept = []
    for n in range(4):
        with torch.cuda.stream(up):
            x = host[n].to("cuda", non_blocking=True)
        run.wait_stream(up)
        with torch.cuda.stream(run):
            y = x * 2
        down.wait_stream(run)
        with torch.cuda.stream(down):
            results[n].copy_(y, non_blocking=True)
        kept.append((x, y))
    down.synchronize()
    results.tolist()


def timing_events_on_two_streams():
    side, begin, end = torch.cuda.Stream(), *(torch.cuda.Event(enable_timing=True) for _ in "ab")
    x = torch.ones(4, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        begin.record()
        x.mul(2)
        end.record()
    end.synchronize()
    begin.elapsed_time(end)


def ema_of_weights_on_a_side_stream():
    model, ema, side = _model(), _model(), torch.cuda.Stream()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        torch.cuda.current_stream().wait_stream(side)
        model(torch.ones(2, 4, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.no_grad():
            for old, new in zip(ema.parameters(), model.parameters(), strict=True):
                old.lerp_(new, 0.1)
    torch.cuda.synchronize()


# Threads.


def read_in_another_thread_behind_an_event():
    x, results = torch.ones(4, device="cuda"), []

    def read(host, done):
        done.synchronize()
        results.append(host.tolist())

    with ThreadPoolExecutor(1) as pool:
        for _ in range(3):
            x = x + 1
            host, done = x.to("cpu", non_blocking=True), torch.cuda.Event()
            done.record()
            pool.submit(read, host, done).result()
    assert len(results) == 3


def read_in_another_thread_after_this_one_waited():
    hosts, results = queue.Queue(), []

    def work():
        while (host := hosts.get()) is not None:
            results.append(host.sum().item())

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(3):
        host, done = torch.ones(4, device="cuda").to("cpu", non_blocking=True), torch.cuda.Event()
        done.record()
        done.synchronize()
        hosts.put(host)
    hosts.put(None)
    thread.join()


def loader_thread_with_its_own_stream():
    batches, stream = queue.Queue(2), torch.cuda.Stream()

    def load():
        for n in range(4):
            with torch.cuda.stream(stream):
                batch = torch.full((4,), float(n)).pin_memory().cuda(non_blocking=True)
                ready = torch.cuda.Event()
                ready.record()
            batches.put((batch, ready))
        batches.put(None)

    thread = threading.Thread(target=load)
    thread.start()
    total = torch.zeros(4, device="cuda")
    while (item := batches.get()) is not None:
        batch, ready = item
        torch.cuda.current_stream().wait_event(ready)
        batch.record_stream(torch.cuda.current_stream())
        total += batch
    thread.join()
    total.tolist()


def pinned_buffers_filled_by_a_thread():
    filled, free = queue.Queue(), queue.Queue()
    for _ in range(2):
        free.put((_pinned(4), None))

    def fill():
        for n in range(5):
            host, done = free.get()
            if done is not None:
                done.synchronize()
            host.fill_(n)
            filled.put(host)
        filled.put(None)

    thread = threading.Thread(target=fill)
    thread.start()
    outs = []
    while (host := filled.get()) is not None:
        outs.append(host.to("cuda", non_blocking=True))
        done = torch.cuda.Event()
        done.record()
        free.put((host, done))
    thread.join()
    torch.stack(outs).tolist()


def thread_that_works_on_pageable_memory_meanwhile():
    x, results = torch.ones(4, device="cuda"), []
    host, done = x.to("cpu", non_blocking=True), torch.cuda.Event()
    done.record()
    thread = threading.Thread(target=lambda: results.append(torch.ones(4).sum().item()))
    thread.start()
    thread.join()
    done.synchronize()
    host.tolist()


# A paged cache, by address and by index.


def _blocks(tensor, numbers):
    size = tensor[0].numel() * tensor.element_size()
    return np.array([tensor.data_ptr() + n * size for n in numbers], np.int64)


def _copy_blocks(source, from_, target, to):
    size = target[0].numel() * target.element_size()
    sizes = np.full(len(to), size, np.int64)
    debubble.accelerator().copy_batch(_blocks(source, from_), _blocks(target, to), sizes)


def _cache():
    cache, host = torch.zeros(8, 2, 4, device="cuda"), torch.ones(8, 2, 4, pin_memory=True)
    torch.cuda.synchronize()
    return cache, host


def blocks_loaded_beside_blocks_that_are_read():
    cache, host = _cache()
    side, table = torch.cuda.Stream(), torch.tensor([0, 5], device="cuda")
    with torch.cuda.stream(side):
        _copy_blocks(host, [1, 2], cache, [1, 2])
    cache.index_select(0, table).sum().item()
    cache[table].sum().item()
    cache.gather(0, table.view(2, 1, 1).expand(2, 2, 4)).sum().item()
    torch.take(cache, table).sum().item()
    nn.functional.embedding(table, cache.view(8, 8)).sum().item()


def blocks_loaded_beside_slots_that_are_written():
    cache, host = _cache()
    side, slots = torch.cuda.Stream(), torch.tensor([0, 11], device="cuda")
    rows = torch.ones(2, 4, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        _copy_blocks(host, [1, 2], cache, [1, 2])
    flat = cache.view(16, 4)
    flat.index_copy_(0, slots, rows)
    flat[slots] = rows
    flat.index_put_((slots,), rows)
    flat.index_add_(0, slots, rows)
    flat.scatter_(0, slots.view(2, 1).expand(2, 4), rows)
    torch.cuda.synchronize()


def blocks_read_once_they_are_loaded():
    cache, host = _cache()
    side, table = torch.cuda.Stream(), torch.tensor([1, 2], device="cuda")
    with torch.cuda.stream(side):
        _copy_blocks(host, [1, 2], cache, [1, 2])
    torch.cuda.current_stream().wait_stream(side)
    cache.index_select(0, table).sum().item()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        _copy_blocks(cache, [1, 2], host, [3, 4])
    torch.cuda.synchronize()


def blocks_of_a_graph_beside_blocks_that_are_loaded():
    cache, host = _cache()
    side, table = torch.cuda.Stream(), torch.tensor([0, 5], device="cuda")
    graph, out = _captured(lambda: cache.index_select(0, table).sum())
    with torch.cuda.stream(side):
        _copy_blocks(host, [1, 2], cache, [1, 2])
    graph.replay()
    out.item()


def blocks_swapped_while_a_mask_chooses_others():
    cache, host = _cache()
    side, mask = torch.cuda.Stream(), torch.arange(8, device="cuda") > 5
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        _copy_blocks(cache, [1, 2], host, [1, 2])
    cache[mask] = 0.0
    cache.index_fill_(0, torch.tensor([7], device="cuda"), 1.0)
    torch.cuda.synchronize()


def shard_freed_by_its_storage_once_the_copy_is_waited_for():
    copy, shard, host = torch.cuda.Stream(), torch.ones(256, device="cuda"), _pinned(256)
    for _ in range(2):
        copy.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(copy):
            host.copy_(shard, non_blocking=True)
        torch.cuda.current_stream().wait_stream(copy)
        shard.untyped_storage().resize_(0)
        torch.full((256,), -1.0, device="cuda")
        shard.untyped_storage().resize_(1024)
        shard.fill_(2.0)
    torch.cuda.synchronize()
