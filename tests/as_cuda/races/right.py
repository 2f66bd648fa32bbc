"""Right programs: their accesses to shared memory are ordered among streams, threads and graphs."""

import queue
import threading

import numpy as np
import torch
from torch import nn

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


# Buffers of the host.


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


def numpy_view_filled_before_the_upload():
    host = _pinned(4)
    view = host.numpy()
    view[:] = np.arange(4)
    x = host.to("cuda", non_blocking=True)
    x.tolist()
    view[:] = 7


# Streams.


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


# Threads.


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
