"""Lengths that the host knows (chapter 02, medium, 25 minutes).

A model that scores two texts at once needs to know which token belongs to which text: a token's id
is 0 in the first text and 1 in the second. `token_type_starts` has the position in a request at
which the second text begins. The function below works. But it reads each request's length from the
device and waits each time, and its upload of the ids waits once more.

Take the lengths from `optimistic_seq_lens_cpu`, which the host wrote itself. Upload once, from
pinned memory and without waiting, with as many launches for 16 requests as for 2. Pin the memory if
the platform can: `pin_memory=current().pin_memory`, from `debubble.accelerator`. Keep refusing the
inputs that the function refuses.

You need to know `cumsum`, or any other way from where ids change to the ids.

Edit this file, then run

    pytest katas/sync_free/test_token_types.py

Stuck?         debubble hint token_types
Start afresh?  debubble reset token_types
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

HostIntegers = np.ndarray | torch.Tensor
LONGEST = 60


# Yours to edit, from here on.
def _init_model_kwargs(
    token_type_starts: Mapping[int, int],
    seq_lens: torch.Tensor,
    optimistic_seq_lens_cpu: torch.Tensor,
    num_reqs: int,
) -> dict[str, torch.Tensor]:
    """Returns {"token_type_ids": [sum of the first num_reqs lengths] int32 on the device}, one
    request after the other (vLLM #41429).

    `token_type_starts` maps a request to the position from which on its ids are 1. Ids before it
    are 0, and so are all ids of a request that is missing. `seq_lens` and `optimistic_seq_lens_cpu`
    are [max_reqs] int32, on the device and on the host. The host's lengths are used as they are.
    They are an upper bound under speculative decoding, which pooling does not have.
    """
    check_token_types(token_type_starts, optimistic_seq_lens_cpu, num_reqs)
    token_type_ids = [torch.empty(0, dtype=torch.int32)]
    for request in range(num_reqs):
        positions = torch.arange(int(seq_lens[request]))
        start = token_type_starts.get(request, len(positions))
        token_type_ids.append((positions >= start).int())
    return {"token_type_ids": torch.cat(token_type_ids).to(seq_lens.device)}


# region Given: what the code above uses. You may change it, and need not.


def host_integers(name: str, numbers: HostIntegers) -> np.ndarray:
    """Returns `numbers` as a numpy array, int64 [n]. Raises ValueError, which calls them `name`,
    for a tensor on the device, and for anything but a row of integers."""
    if isinstance(numbers, torch.Tensor):
        if numbers.device.type != "cpu":
            raise ValueError(
                f"{name} is on {numbers.device}, where to read it is to wait: give it on the host"
            )
        numbers = numbers.numpy()
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise ValueError(
            f"{name} is {numbers.dtype} {list(numbers.shape)}: it must be integers in one dimension"
        )
    return numbers.astype(np.int64)


def is_integer(value: object) -> bool:
    """Returns True for integers of Python and numpy, but not for True and False."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _short(value: object) -> str:
    if isinstance(value, int) and abs(value) >= 10**LONGEST:
        return "an int of more than 60 digits"
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def shown(value: object) -> str:
    """Returns a number, a flag or a word itself, and a description of any other value, since
    printing a tensor reads it from the device."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return _short(value)
    if isinstance(value, torch.Tensor):
        return f"a {value.dtype} tensor {list(value.shape)} on {value.device}"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} {list(value.shape)}"
    if isinstance(value, np.generic | torch.dtype | torch.device | range):
        return repr(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def check_token_types(
    token_type_starts: Mapping[int, int], optimistic_seq_lens_cpu: HostIntegers, num_reqs: int
) -> np.ndarray:
    """Returns the lengths of the requests, [num_reqs] int64.

    Raises ValueError for lengths that are negative or not on the host, for more requests than
    lengths, and for a start that is no integer or belongs to a request that does not exist.
    """
    lengths = host_integers("optimistic_seq_lens_cpu", optimistic_seq_lens_cpu)
    if not 0 <= num_reqs <= len(lengths):
        raise ValueError(
            f"{num_reqs} requests, and the lengths of {len(lengths)}: num_reqs must be at least 0, "
            "and no more than there are lengths"
        )
    lengths = lengths[:num_reqs]
    negative = np.flatnonzero(lengths < 0)
    if negative.size:
        request = int(negative[0])
        raise ValueError(
            f"request {request} has a length of {lengths[request]}: lengths are at least 0"
        )
    for request, start in token_type_starts.items():
        if not is_integer(request) or not 0 <= request < num_reqs:
            raise ValueError(
                f"token types start in request {shown(request)}, and this batch has {num_reqs} "
                "requests: leave it out"
            )
        if not is_integer(start):
            raise ValueError(
                f"the token types of request {request} start at {shown(start)}: give an integer"
            )
    return lengths


# endregion
