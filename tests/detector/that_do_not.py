"""Snippets that never make the host wait, although some of them look as if they did."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import debubble


def fills_a_slice(s):
    s.x[2:4] = 0.0
    s.x[:, 3] = float("-inf")


def fills_a_row(s):
    s.x[0] = 1


def fills_through_a_mask(s):
    s.x[s.mask] = 0.0


def fills_the_rest(s):
    s.x[~s.mask] = -1.0


def fills_masked_logits(s):
    return s.x.masked_fill(s.mask, float("-inf")).softmax(-1)


def fills_rows_by_index(s):
    s.x.index_fill_(0, s.ids, 0.0)


def spreads_a_value_of_the_device(s):
    s.x[2:] = s.zero


def fills_with_a_value_of_the_device(s):
    s.x.fill_(s.zero)


def assigns_rows_of_the_device(s):
    s.x[s.ids] = s.x[s.lengths]


def assigns_a_number_of_the_device_at_an_index(s):
    s.x[s.ids] = s.zero


def adds_in_place_at_an_index(s):
    s.x[s.ids] += 1


def puts_values_of_the_device(s):
    s.x.index_put_((s.ids, s.ids), s.logits[0, :3])


def scatters(s):
    places = s.logits.argmax(-1, keepdim=True)
    s.logits.scatter_(1, places, 1.0)
    s.logits.scatter_add_(1, places, torch.ones(4, 1, device=s.device))


def copies_rows(s):
    s.x.index_copy_(0, s.ids, s.x[:3].clone())


def chooses_by_a_mask(s):
    return torch.where(s.mask, s.x, 0.0)


def asks_without_looking_at_the_answer(s):
    finite = torch.isfinite(s.x).all()
    return torch.where(finite, s.x, 0.0)


def asserts_on_the_device(s):
    torch._assert_async((s.ids >= 0).all())


def counts_on_the_device(s):
    return s.mask.sum()


def finds_a_known_number_of_places(s):
    return torch.nonzero_static(s.mask, size=16)


def repeats_to_a_known_size(s):
    return torch.repeat_interleave(s.ids, s.lengths, output_size=8)


def repeats_each_the_same(s):
    return torch.repeat_interleave(s.ids, 2)


def knows_the_number_of_classes(s):
    return F.one_hot(s.ids, num_classes=8)


def samples(s):
    return torch.multinomial(s.logits.softmax(-1), 1).squeeze(1)


def samples_by_exponentials(s):
    noise = torch.empty_like(s.logits).exponential_(1)
    return s.logits.softmax(-1).div_(noise).argmax(-1)


def sorts(s):
    values, _ = s.logits.sort(-1, descending=True)
    return values.cumsum(-1)


def takes_the_best(s):
    best = s.logits.topk(3)
    return s.logits.gather(1, best.indices)


def clamps_to_bounds_on_the_device(s):
    return s.lengths.clamp(max=s.lengths.max())


def takes_a_minimum_with_a_tensor(s):
    return torch.minimum(s.ids, s.lengths.max())


def ranks_a_token(s):
    chosen = s.logits.gather(1, s.logits.argmax(-1, keepdim=True))
    return (s.logits >= chosen).sum(-1)


def converts_on_the_device(s):
    return s.x.to(torch.bfloat16).float(), s.ids.int()


def stays_where_it_is(s):
    return s.x.to(s.device)


def uploads_pinned_memory(s):
    return s.pinned.to(s.device, non_blocking=True)


def uploads_rows_of_pinned_memory(s):
    return s.pinned[2:4].to(s.device, non_blocking=True)


def uploads_pinned_memory_the_other_way_round(s):
    return s.pinned.t().to(s.device, non_blocking=True)


def uploads_and_converts_on_the_device(s):
    return s.pinned.to(s.device, dtype=torch.float16, non_blocking=True)


def uploads_into_a_part_of_a_buffer(s):
    s.x[:2].copy_(s.pinned[:2], non_blocking=True)


def packs_a_list_into_pinned_memory(s):
    lengths = np.array([3, 1, 4], dtype=np.int32)
    staged = torch.from_numpy(lengths).pin_memory()
    return staged.to(s.device, non_blocking=True)


def downloads_for_later(s):
    return s.logits.argmax(-1).to("cpu", non_blocking=True)


def downloads_into_pinned_memory(s):
    s.pinned.copy_(s.x, non_blocking=True)
    s.event.record()


def asks_whether_an_event_is_done(s):
    s.event.record()
    return s.event.query()


def orders_streams_by_an_event(s):
    s.event.record()
    s.side.wait_event(s.event)
    with s.side:
        s.x + 1
    s.accelerator.current_stream().wait_stream(s.side)


def replays_a_graph(s):
    s.graph.replay()


def calls_a_model(s):
    with torch.no_grad():
        return s.model(s.x).argmax(-1)


def attends(s):
    q, k, v = (s.x.view(1, 2, 4, 8) for _ in range(3))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def computes_a_loss(s):
    targets = torch.zeros(4, dtype=torch.int64, device=s.device)
    return F.cross_entropy(s.logits, targets)


def embeds(s):
    table = nn.Embedding(8, 4, device=s.device)
    return table(s.ids)


def makes_tensors_on_the_device(s):
    rows = torch.arange(8, device=s.device)
    return torch.zeros(8, 3, device=s.device), torch.full((8,), 2.0, device=s.device), rows


def derives_offsets(s):
    return F.pad(s.lengths.cumsum(0), (1, 0)).diff()


def asks_for_what_the_host_knows(s):
    rows, columns = s.x.shape
    return len(s.lengths) + rows * columns + s.x.numel() + s.x.dim() + s.x.stride(0)


def goes_over_rows(s):
    return [row.sum() for row in s.x], dict(enumerate(s.x.unbind(0)))


def generates_on_the_device(s):
    def tokens(steps):
        for _ in range(steps):
            yield s.logits.argmax(-1)

    return torch.stack(list(tokens(3)))


def splits_by_sizes_of_the_host(s):
    lengths = torch.tensor([2, 5, 1])
    return s.x.split(lengths.tolist())


def decides_on_the_host(s):
    if s.host.sum().item() > 0 and bool((s.host > 0).any()):
        return s.host.nonzero()
    return s.host[s.host > 0].numpy()


def uses_a_number_of_the_host(s):
    return s.x * torch.tensor(2.0) + 1


def waits_where_it_is_allowed(s):
    tokens = s.logits.argmax(-1)
    with debubble.allow_host_sync():
        return tokens.tolist()


def allows_a_wait_far_away(s):
    def read(tensor):
        return tensor.item()

    with debubble.allow_host_sync():
        return read(s.zero)
