"""Snippets that make the host wait, as users write them; each line that waits has `# waits`."""

import io
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def reads_the_loss(s):
    loss = s.x.square().mean()
    return loss.item()  # waits


def branches_on_a_tensor(s):
    if (s.x > 100).any():  # waits
        return s.x * 2
    return s.x


def branches_on_the_opposite(s):
    finite = torch.isfinite(s.x).all()
    if not finite:  # waits
        raise ValueError("not finite")


def loops_while_a_tensor_says_so(s):
    steps = torch.zeros((), device=s.device)
    while steps < 3:  # waits
        steps += 1
    return steps


def chooses_by_a_tensor(s):
    scale = 2.0 if s.zero > 0 else 1.0  # waits
    return s.x * scale


def asserts_a_tensor(s):
    assert (s.ids >= 0).all()  # waits
    return s.x[s.ids]


def lists_the_lengths(s):
    return [int(length) for length in s.lengths]  # waits


def lists_over_several_lines(s):
    return [
        row.float()
        .sub(row.amax())
        .softmax(-1)
        .clamp(min=1e-6, max=1.0)
        .sort(descending=True)
        .values[0]
        .item()  # waits
        for row in s.logits
    ]


def builds_a_dict_of_metrics(s):
    return {
        "mean": s.x.mean().item(),  # waits
        "rows": len(s.x),
        "largest": float(s.x.max()),  # waits
    }


def prints_a_tensor(s):
    print("lengths:", s.lengths, file=io.StringIO())  # waits


def formats_in_an_f_string(s):
    loss = s.x.sum()
    return f"loss {loss:.3f}"  # waits


def formats_with_percent(s):
    return "loss %.3f" % s.zero  # waits  # noqa: UP031


def asks_what_is_in_a_tensor(s):
    return 5 in s.lengths  # waits


def sorts_in_python(s):
    return sorted(s.lengths)  # waits


def takes_the_maximum_in_python(s):
    return max(s.lengths)  # waits


def converts_to_numpy(s):
    probabilities = s.logits.softmax(-1)
    return probabilities.cpu().numpy()  # waits


def converts_a_list_to_tokens(s):
    tokens = s.logits.argmax(-1)
    return tokens.tolist()  # waits


def compares_two_tensors(s):
    return torch.equal(s.x, s.x + 1)  # waits


def compares_within_a_tolerance(s):
    other = s.x + 1e-9
    return torch.allclose(s.x, other)  # waits


def finds_what_is_not_zero(s):
    rows, _ = s.mask.nonzero(as_tuple=True)  # waits
    return rows


def finds_with_one_argument(s):
    (long,) = torch.where(s.lengths > 1)  # waits
    return long


def selects_by_a_mask(s):
    kept = s.x[s.mask]  # waits
    return kept.sum()


def adds_to_a_mask(s):
    s.x[s.mask] += 1.0  # waits


def finds_what_is_unique(s):
    return torch.unique(s.ids)  # waits


def finds_unique_rows(s):
    return torch.unique(s.lengths[:, None], dim=0)  # waits


def counts_the_tokens(s):
    return torch.bincount(s.ids, minlength=8)  # waits


def repeats_without_saying_how_often(s):
    return torch.repeat_interleave(s.ids, s.lengths)  # waits


def guesses_the_number_of_classes(s):
    return F.one_hot(s.ids)  # waits


def splits_by_lengths_on_the_device(s):
    return s.x.split(s.lengths.tolist())  # waits


def slices_to_a_bound_on_the_device(s):
    return s.x[: s.lengths[1]]  # waits


def counts_up_to_a_value_on_the_device(s):
    return torch.arange(s.lengths[1], device=s.device)  # waits


def fills_with_a_value_of_the_device(s):
    return torch.full((4,), s.zero, device=s.device)  # waits


def assigns_one_number(s):
    s.x[0, 0] = 3.0  # waits


def assigns_at_an_index_tensor(s):
    s.x[s.ids] = 0.0  # waits


def assigns_a_value_of_the_device_through_a_mask(s):
    s.x[s.mask] = s.zero  # waits


def assigns_a_row_of_the_host(s):
    s.x[0] = torch.ones(8)  # waits


def reads_rows_by_a_list(s):
    wanted = [0, 2, 5]
    return s.x[wanted]  # waits


def reads_rows_by_an_index_of_the_host(s):
    wanted = torch.tensor([0, 2, 5])
    return s.x[wanted]  # waits


def makes_a_tensor_of_a_list(s):
    spans = [(0, 3), (5, 9)]
    return torch.tensor(  # waits
        spans,
        dtype=torch.int32,
        device=s.device,
    )


def makes_a_tensor_of_tensors(s):
    return torch.tensor([s.x[0, 0], s.x[0, 1]], device=s.device)  # waits


def makes_a_new_tensor_like_another(s):
    return s.lengths.new_tensor([1, 2])  # waits


def uploads_an_array(s):
    table = np.arange(12, dtype=np.int32).reshape(3, 4)
    return torch.from_numpy(table).to(s.device)  # waits


def uploads_pageable_memory_without_blocking(s):
    return s.host.to(s.device, non_blocking=True)  # waits


def uploads_columns_of_pinned_memory(s):
    return s.pinned[:, :3].to(s.device, non_blocking=True)  # waits


def uploads_every_second_row_of_pinned_memory(s):
    return s.pinned[::2].to(s.device, non_blocking=True)  # waits


def uploads_what_was_converted_on_the_way(s):
    half = s.pinned.half()
    return half.to(s.device, non_blocking=True)  # waits


def forgets_non_blocking(s):
    return s.pinned.to(s.device)  # waits


def downloads_into_pageable_memory(s):
    result = torch.empty(8, 8)
    result.copy_(s.x, non_blocking=True)  # waits
    return result


def downloads_into_columns_of_pinned_memory(s):
    s.pinned[:, :3].copy_(s.x[:, :3], non_blocking=True)  # waits


def downloads_with_a_conversion(s):
    return s.x.to("cpu", torch.bfloat16)  # waits


def moves_a_module(s):
    return nn.Linear(8, 8).to(s.device)  # waits


def loads_weights_one_by_one(s):
    with torch.no_grad():
        for weight in s.model.parameters():
            weight.copy_(torch.zeros(weight.shape))  # waits


def waits_for_the_device(s):
    s.x + 1
    s.accelerator.synchronize()  # waits


def waits_for_a_stream(s):
    with s.side:
        s.x + 1
    s.side.synchronize()  # waits


def waits_for_an_event(s):
    copy = s.x.to("cpu", non_blocking=True)
    s.event.record()
    s.event.synchronize()  # waits
    return copy.sum()


def generates_tokens(s):
    def tokens(steps):
        for _ in range(steps):
            token = s.logits.argmax()
            yield token.item()  # waits

    return list(tokens(3))


def calls_a_module_that_branches(s):
    class Router(nn.Module):
        def forward(self, x):
            scores = x.softmax(-1)
            if scores.isnan().any():  # waits
                raise ValueError("a score is not a number")
            return scores

    return Router()(s.x)


def asks_a_property(s):
    @dataclass
    class Batch:
        lengths: torch.Tensor

        @property
        def longest(self) -> int:
            return int(self.lengths.max())  # waits

    return torch.zeros(Batch(s.lengths).longest, device=s.device)


def decorates_with_a_check(s):
    def checked(function):
        def call(x):
            result = function(x)
            torch.linalg.inv(torch.eye(4, device=s.device))  # waits
            return result

        return call

    return checked(torch.relu)(s.x)


def cleans_up_with_a_wait(s):
    try:
        return s.x + 1
    finally:
        s.accelerator.current_stream().synchronize()  # waits
