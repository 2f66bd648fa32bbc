"""Races that were reported in public, each reduced to a few lines; the two lines are marked
`# first` and `# second`."""

import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

from .right import _cache, _captured, _copy_blocks, _pinned


def two_downloads_compared_at_once():
    # https://github.com/pytorch/pytorch/issues/140296
    x, y = (torch.arange(1000, device="cuda") for _ in range(2))
    x = x.to("cpu", non_blocking=True)  # first
    y = y.to("cpu", non_blocking=True)  # first
    bool((x == y).all())  # second


def results_of_a_loop_kept_on_the_host():
    # https://github.com/pytorch/pytorch/issues/86264
    kept = []
    for n in range(3):
        kept.append(torch.full((4,), n, device="cuda").to("cpu", non_blocking=True))  # first
    torch.cat(kept).sum()  # second


def state_moved_to_the_host_and_summed():
    # https://github.com/pytorch/pytorch/issues/127612
    on_host, model = [], nn.Linear(8, 8).cuda()
    for weight in model.parameters():
        on_host.append(weight.detach().to("cpu", non_blocking=True))  # first
    sum(float(weight.sum()) for weight in on_host)  # second


def item_of_a_download():
    # https://github.com/pytorch/pytorch/issues/182190
    x = torch.ones(4, device="cuda").sum()
    x.to("cpu", non_blocking=True).item()  # first second


def table_of_requests_read_on_the_host():
    # https://github.com/sgl-project/sglang/pull/16493
    lengths = torch.tensor([3, 4], device="cuda")
    on_host = lengths.to("cpu", non_blocking=True)  # first
    [int(n) for n in on_host]  # second


def counts_read_by_the_next_step():
    # https://github.com/vllm-project/vllm/pull/36013
    counts, on_host = torch.ones(4, device="cuda"), _pinned(4)

    def step():
        counts.add_(1)
        on_host.copy_(counts, non_blocking=True)  # first

    step()
    on_host.numpy().tolist()  # second


def hook_that_updates_from_a_gradient_still_under_way():
    # https://github.com/pytorch/pytorch/pull/180666
    x = torch.ones(4, device="cuda", requires_grad=True)
    master = torch.ones(4)

    def hook(parameter):
        grad = parameter.grad.to("cpu", non_blocking=True)  # first
        master.sub_(grad, alpha=0.1)  # second

    x.register_post_accumulate_grad_hook(hook)
    (x * 2).sum().backward()


def gradients_offloaded_for_an_optimizer_on_the_host():
    # https://github.com/facebookresearch/fairscale/pull/496
    weight, grad = torch.zeros(4, requires_grad=True), torch.ones(4, device="cuda")
    weight.grad = _pinned(4)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    weight.grad.copy_(grad, non_blocking=True)  # first
    optimizer.step()  # second


def offsets_overwritten_by_the_next_iteration():
    # https://github.com/NVIDIA/TensorRT-LLM/pull/15546
    offsets, on_device = _pinned(4), torch.zeros(4, device="cuda")
    torch.cuda._sleep(1_000_000)
    for step in range(2):
        offsets[:] = step + 1  # second
        on_device.copy_(offsets, non_blocking=True)  # first


def start_locations_overwritten_through_numpy():
    # https://github.com/vllm-project/vllm-ascend/pull/12071
    starts, on_device = _pinned(4), torch.zeros(4, device="cuda")
    torch.cuda._sleep(1_000_000)
    for step in range(2):
        starts.numpy()[:] = step + 1
        on_device.copy_(starts, non_blocking=True)  # first


def forward_before_its_weights_have_come():
    # https://github.com/huggingface/diffusers/pull/13502
    host, copy = _pinned(4, 4), torch.cuda.Stream()
    x = torch.ones(2, 4, device="cuda")
    with torch.cuda.stream(copy):
        weight = host.to("cuda", non_blocking=True)  # first
    (x @ weight).sum().item()  # second


def consumer_that_reads_before_the_copy():
    # https://github.com/ROCm/pytorch/issues/3194
    host, target, copy = _pinned(1024), torch.zeros(1024, device="cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(copy):
        target.copy_(host, non_blocking=True)  # first
    target.sum().item()  # second


def matrix_read_by_a_side_stream_at_once():
    # https://github.com/pytorch/pytorch/issues/2702
    m, side = torch.empty(8, 8, device="cuda"), torch.cuda.Stream()
    m.fill_(0.1)  # first
    with torch.cuda.stream(side):
        m - m @ m / 8  # second


def random_input_of_another_stream():
    # https://github.com/pytorch/pytorch/issues/82050
    x, side = torch.randn(8, device="cuda"), torch.cuda.Stream()  # first
    with torch.cuda.stream(side):
        x.clone()  # second


def source_of_a_copy_dropped():
    # https://github.com/pytorch/pytorch/issues/49915
    copy = torch.cuda.Stream()
    to_copy = torch.ones(100, device="cuda")
    copy.wait_stream(torch.cuda.default_stream())
    with torch.cuda.stream(copy):
        torch.cuda._sleep(1_000_000)
        copied = to_copy.clone()  # first
        to_copy = None
    torch.rand(100, device="cuda")  # second
    torch.cuda.synchronize()
    copied.sum().item()


def embeddings_offloaded_and_resized():
    # https://github.com/meta-pytorch/torchrec/pull/4231
    copy, x, host = torch.cuda.Stream(), torch.ones(256, device="cuda"), _pinned(256)
    copy.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(copy):
        host.copy_(x, non_blocking=True)  # first
    x.untyped_storage().resize_(0)
    torch.full((256,), -1.0, device="cuda")  # second
    torch.cuda.synchronize()


def gradient_shard_dropped_while_it_is_offloaded():
    # https://github.com/pytorch/pytorch/pull/180665
    scatter, reduce, host = torch.cuda.Stream(), torch.cuda.Stream(), _pinned(4)

    def reduced():
        with torch.cuda.stream(scatter):
            shard = torch.ones(4, device="cuda").mul_(2)  # second
        reduce.wait_stream(scatter)
        with torch.cuda.stream(reduce):
            host.copy_(shard, non_blocking=True)  # first

    reduced()
    reduced()


def activation_deleted_while_it_is_brought_back():
    # https://github.com/meta-pytorch/torchtune/issues/1867
    copy, host = torch.cuda.Stream(), _pinned(4)
    for _ in range(2):
        with torch.cuda.stream(copy):
            activation = host.to("cuda", non_blocking=True)  # second
        torch.cuda.current_stream().wait_stream(copy)
        activation.mul(2)  # first
        del activation


def saved_tensor_cloned_on_the_transfer_stream():
    # https://github.com/huggingface/trl/pull/7195
    transfer, labels = torch.cuda.Stream(), torch.zeros(8, device="cuda")
    transfer.wait_stream(torch.cuda.current_stream())
    labels.fill_(3)  # first
    with torch.cuda.stream(transfer):
        labels[1:].clone()  # second


def reload_that_does_not_wait_for_its_offload():
    # https://github.com/NVIDIA/Megatron-LM/issues/7398
    down, host, x = torch.cuda.Stream(), _pinned(4), torch.ones(4, device="cuda")
    down.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(down):
        host.copy_(x, non_blocking=True)  # first
    host.to("cuda", non_blocking=True).mul(2)  # second


def pool_of_host_memory_that_waits_for_itself():
    # https://github.com/pytorch/torchtitan/pull/2581
    down, up, slab = torch.cuda.Stream(), torch.cuda.Stream(), _pinned(4)
    x = torch.ones(4, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(up):
        slab.to("cuda", non_blocking=True)  # first
    with torch.cuda.stream(down):
        down.wait_stream(torch.cuda.current_stream())
        slab.copy_(x, non_blocking=True)  # second


def prefetch_stream_that_the_forward_does_not_wait_for():
    # https://github.com/meta-pytorch/torchrec/pull/3306
    prefetch, table = torch.cuda.Stream(), torch.zeros(8, 4, device="cuda")
    prefetch.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(prefetch):
        rows = table[2:4] * 1.0  # first
    rows.sum().item()  # second


def prefetcher_that_does_not_wait_for_its_consumer():
    # https://github.com/huggingface/pytorch-image-models/pull/2784
    prefetch, host = torch.cuda.Stream(), _pinned(4)
    for _ in range(2):
        with torch.cuda.stream(prefetch):
            batch = host.to("cuda", non_blocking=True)  # second
            batch = batch.float().sub(1)  # second
        torch.cuda.current_stream().wait_stream(prefetch)
        batch.square()  # first
        del batch


def block_stored_before_its_kernel_has_run():
    # https://github.com/vllm-project/vllm/issues/45704
    cache, host = _cache()
    store, slots = torch.cuda.Stream(), torch.tensor([2], device="cuda")
    values = torch.ones(1, 2, 4, device="cuda")
    torch.cuda.synchronize()
    cache[slots] = values  # first
    with torch.cuda.stream(store):
        _copy_blocks(cache, [2], host, [2])
    torch.cuda.synchronize()


def block_loaded_while_a_request_reads_it():
    # https://github.com/vllm-project/vllm/issues/47282
    cache, host = _cache()
    load, table = torch.cuda.Stream(), torch.tensor([2, 3], device="cuda")
    cache.index_select(0, table).sum()  # first
    with torch.cuda.stream(load):
        _copy_blocks(host, [2], cache, [2])
    torch.cuda.synchronize()


def block_zeroed_after_it_was_loaded():
    # https://github.com/vllm-project/vllm/pull/50696
    cache, host = _cache()
    load, fresh = torch.cuda.Stream(), torch.tensor([2, 3], device="cuda")
    cache.index_fill_(0, fresh, 0.0)  # first
    with torch.cuda.stream(load):
        _copy_blocks(host, [2], cache, [2])
    torch.cuda.synchronize()


def page_copied_while_a_thread_loads_it():
    # https://github.com/vllm-project/vllm/pull/50360
    cache, host = _cache()
    load = torch.cuda.Stream()
    cache[2].copy_(cache[1])  # first

    def receive():
        with torch.cuda.stream(load):
            _copy_blocks(host, [2], cache, [2])

    thread = threading.Thread(target=receive)
    thread.start()
    thread.join()
    torch.cuda.synchronize()


def input_of_a_graph_dropped_by_its_owner():
    # https://github.com/pytorch/pytorch/pull/174649
    def build():
        x = torch.ones(4, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = x * 2  # first
        return graph, y

    graph, y = build()  # second
    graph.replay()
    y.tolist()


def gradients_of_graphed_callables_summed_later():
    # https://github.com/pytorch/pytorch/issues/181723
    layer, x = nn.Linear(4, 4).cuda(), torch.ones(2, 4, device="cuda")
    graphed = torch.cuda.make_graphed_callables(layer, (x,))
    grads = []
    for scale in (1.0, 2.0):
        (grad,) = torch.autograd.grad(graphed(x * scale).sum(), [layer.weight])  # first
        grads.append(grad)
    (grads[0] + grads[1]).sum().item()  # second


def runner_that_waits_for_the_stream_of_the_capture():
    # https://github.com/XPU-Forces/xpu_graph/pull/491
    stream, x, host = torch.cuda.Stream(), torch.ones(4, device="cuda"), _pinned(4)
    graph, out = _captured(lambda: x * 2, stream=stream)
    graph.replay()
    host.copy_(out, non_blocking=True)  # first
    stream.synchronize()
    host.tolist()  # second


def results_handed_to_a_thread_without_an_event():
    # https://github.com/vllm-project/vllm/pull/23569
    def output(host):
        return host.tolist()  # second

    with ThreadPoolExecutor(1) as pool:
        sampled = torch.arange(4, device="cuda")
        pool.submit(output, sampled.to("cpu", non_blocking=True)).result()  # first


def gradients_added_up_by_a_worker_of_the_host():
    # https://github.com/PrimeIntellect-ai/prime-rl/pull/3196
    work, total = queue.Queue(), torch.zeros(4)

    def add():
        while (grad := work.get()) is not None:
            total.add_(grad)  # second

    worker = threading.Thread(target=add)
    worker.start()
    work.put(torch.ones(4, device="cuda").to("cpu", non_blocking=True))  # first
    work.put(None)
    worker.join()
