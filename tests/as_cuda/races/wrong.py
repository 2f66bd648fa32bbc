"""Wrong programs: each has a race, whose two lines are marked `# first` and `# second`."""

import torch
from torch import nn

from .right import _cache, _captured, _copy_blocks, _pinned


def download_copied_on_the_host_too_early():
    host = _pinned(4)
    host.copy_(torch.ones(4, device="cuda"), non_blocking=True)  # first
    host.clone()  # second


# Streams.


def input_overwritten_though_this_stream_read_it_last():
    x, side = torch.ones(4, device="cuda"), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x.mul(2)  # first
    x.add(1)
    x.zero_()  # second


def first_part_read_though_another_was_written_since():
    out, streams = torch.zeros(2, 8, device="cuda"), [torch.cuda.Stream() for _ in "ab"]
    torch.cuda.synchronize()
    with torch.cuda.stream(streams[0]):
        out[0].fill_(1)  # first
    with torch.cuda.stream(streams[1]):
        out[1].fill_(2)
    torch.cuda.current_stream().wait_stream(streams[1])
    out.sum().item()  # second


def rows_written_by_index_while_they_are_read():
    table, side = torch.zeros(8, 4, device="cuda"), torch.cuda.Stream()
    mine, others = (torch.tensor(n, device="cuda") for n in ([0, 2], [2, 7]))
    rows = torch.ones(2, 4, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        table.index_copy_(0, others, rows)  # first
    table.index_select(0, mine).sum().item()  # second


def buffer_asked_for_here_and_written_there():
    side = torch.cuda.Stream()
    torch.ones(4, device="cuda").mul(2)  # first
    buffer = torch.empty(4, device="cuda")
    with torch.cuda.stream(side):
        buffer.fill_(1)  # second
    torch.cuda.current_stream().wait_stream(side)
    buffer.tolist()


def upload_into_a_buffer_of_another_stream():
    side, host = torch.cuda.Stream(), _pinned(4)
    kept = torch.ones(4, device="cuda") + 1
    kept.mul(3).sum()  # first
    buffer = torch.empty(4, device="cuda")
    with torch.cuda.stream(side):
        buffer.copy_(host, non_blocking=True)  # second
    side.synchronize()


def gradient_hook_on_a_stream_that_nobody_joins():
    x, reduce = torch.ones(4, device="cuda", requires_grad=True), torch.cuda.Stream()

    def hook(parameter):
        reduce.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(reduce):
            parameter.grad.mul_(0.5)  # first

    x.register_post_accumulate_grad_hook(hook)
    (x * 2).sum().backward()
    x.grad.add(1)  # second


# Graphs.


def graph_whose_input_was_replaced():
    state = {"x": torch.ones(4, device="cuda")}
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = state["x"] * 2  # first
    state["x"] = torch.zeros(4, device="cuda")  # second
    graph.replay()
    y.tolist()


def graph_whose_input_was_moved():
    x = torch.ones(4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2  # first
    x.data = torch.zeros(4, device="cuda")  # second
    graph.replay()
    y.tolist()


def graph_with_a_branch_that_does_not_fork():
    x, side, graph = torch.ones(4, device="cuda"), torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        side.wait_stream(torch.cuda.current_stream())
        y = x * 2  # first
        with torch.cuda.stream(side):
            z = y + 1  # second
        torch.cuda.current_stream().wait_stream(side)
    graph.replay()
    z.tolist()


def graph_with_a_branch_that_joins_too_early():
    x, side, graph = torch.ones(4, device="cuda"), torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x * 2
            joined = torch.cuda.Event()
            joined.record()
            y.add_(1)  # first
        torch.cuda.current_stream().wait_event(joined)
        z = y * 3  # second
        torch.cuda.current_stream().wait_stream(side)
    graph.replay()
    z.tolist()


def graph_whose_outputs_are_kept_as_views():
    static = torch.zeros(4, device="cuda")
    graph, out = _captured(lambda: static * 2)
    views = []
    for value in range(3):
        static.fill_(value)
        graph.replay()
        views.append(out[:2])  # first
    torch.stack(views).tolist()  # second


def graphed_callable_called_twice_before_its_outputs_are_compared():
    model, x = nn.Linear(4, 4).cuda(), torch.ones(2, 4, device="cuda")
    graphed = torch.cuda.make_graphed_callables(model, (x,))
    with torch.no_grad():
        one = graphed(x)  # first
        two = graphed(x * 2)
        (two - one).abs().sum().item()  # second


def graph_with_a_download_that_is_read_at_once():
    x, host = torch.ones(4, device="cuda"), _pinned(4)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        host.copy_(x, non_blocking=True)  # first
    graph.replay()
    host.tolist()  # second


def graph_with_an_upload_whose_buffer_is_refilled():
    x, host = torch.zeros(4, device="cuda"), _pinned(4)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.copy_(host, non_blocking=True)  # first
    for value in range(2):
        host.fill_(value)  # second
        graph.replay()
    x.tolist()


# A paged cache.


def _beside_a_load(use):
    """Uploads blocks 1 and 2 of a cache on a side stream, and calls `use` meanwhile on the main
    stream, which reads or writes block 2 (a race)."""
    cache, host = _cache()
    side, table = torch.cuda.Stream(), torch.tensor([0, 2], device="cuda")
    rows = torch.ones(2, 2, 4, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        _copy_blocks(host, [1, 2], cache, [1, 2])
    use(cache, table, rows)
    torch.cuda.synchronize()


def block_selected_while_it_is_loaded():
    _beside_a_load(lambda cache, table, rows: cache.index_select(0, table))  # second


def block_indexed_while_it_is_loaded():
    _beside_a_load(lambda cache, table, rows: cache[table])  # second


def block_of_a_plane_indexed_while_it_is_loaded():
    _beside_a_load(lambda cache, table, rows: cache[:, 1][table])  # second


def block_gathered_while_it_is_loaded():
    def use(cache, table, rows):
        index = table.view(2, 1, 1).expand(2, 2, 4)
        cache.gather(0, index)  # second

    _beside_a_load(use)


def block_looked_up_while_it_is_loaded():
    def use(cache, table, rows):
        nn.functional.embedding(table, cache.view(8, 8))  # second

    _beside_a_load(use)


def block_written_by_index_copy_while_it_is_loaded():
    _beside_a_load(lambda cache, table, rows: cache.index_copy_(0, table, rows))  # second


def block_assigned_while_it_is_loaded():
    _beside_a_load(lambda cache, table, rows: cache.__setitem__(table, rows))  # second


def slot_written_by_index_put_while_it_is_loaded():
    def use(cache, table, rows):
        cache.view(16, 4).index_put_((table * 2 + 1,), rows[:, 0])  # second

    _beside_a_load(use)


def block_scattered_while_it_is_loaded():
    def use(cache, table, rows):
        index = table.view(2, 1, 1).expand(2, 2, 4)
        cache.scatter_(0, index, rows)  # second

    _beside_a_load(use)


def element_taken_while_it_is_loaded():
    _beside_a_load(lambda cache, table, rows: cache.take(table * 8 + 3))  # second


def block_filled_by_index_while_it_is_loaded():
    _beside_a_load(lambda cache, table, rows: cache.index_fill_(0, table, 0.0))  # second


def block_masked_while_it_is_loaded():
    def use(cache, table, rows):
        mask = torch.arange(8, device="cuda") == 2
        cache.masked_fill_(mask.view(8, 1, 1), 0.0)  # second

    _beside_a_load(use)


def block_stored_before_it_is_written():
    cache, host = _cache()
    side, slots = torch.cuda.Stream(), torch.tensor([5], device="cuda")
    rows = torch.ones(1, 4, device="cuda")
    torch.cuda.synchronize()
    cache.view(16, 4).index_copy_(0, slots, rows)  # first
    with torch.cuda.stream(side):
        _copy_blocks(cache, [2], host, [2])
    torch.cuda.synchronize()


def block_of_a_graph_loaded_too_early():
    cache, host = _cache()
    side, table = torch.cuda.Stream(), torch.tensor([0, 5], device="cuda")
    graph, out = _captured(lambda: cache.index_select(0, table).sum())
    with torch.cuda.stream(side):
        _copy_blocks(host, [1, 2], cache, [1, 2])
    table.fill_(2)
    graph.replay()  # second
    out.item()
