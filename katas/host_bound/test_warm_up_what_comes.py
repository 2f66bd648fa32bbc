"""Tests of the kata `warm_up_what_comes`."""

import pytest
import torch

from debubble.exercises import Diagnosis, KataFailure

KINDS = (
    "An integer argument has keys of three kinds: it is 1, a multiple of 16, or neither. One call "
    "of each kind is enough, for each dtype."
)
TOO_MANY = (
    "Each call with a known key compiles nothing, and each call is a launch before the server may "
    "start. With many kernels and dtypes that is the time of a restart."
)
SMALL = "A server that takes 8 tokens at most has no buffer for 16."


class Keys:
    """A function that stores tokens, and knows for which keys its kernel is compiled."""

    def __init__(self):
        self.calls, self.known = [], set()

    def __call__(self, tokens, dtype):
        self.calls.append((tokens, dtype))
        self.known.add(self.key_of(tokens, dtype))

    def key_of(self, tokens, dtype):
        kind = "1" if tokens == 1 else "a multiple of 16" if tokens % 16 == 0 else "neither"
        return kind, dtype


def fail(expected, did, why):
    raise KataFailure(Diagnosis(expected=expected, did=did, why=why))


@pytest.mark.parametrize("most", [1, 2, 8, 15, 16, 17, 64, 250])
@pytest.mark.parametrize("dtypes", [(torch.bfloat16,), (torch.float16, torch.float32)], ids=str)
def test_no_later_call_compiles(kata, accelerator, most, dtypes):
    keys = Keys()
    kata.warm_up_kinds(keys, most, dtypes)
    for dtype in dtypes:
        for tokens in range(1, most + 1):
            if keys.key_of(tokens, dtype) not in keys.known:
                fail(
                    f"no compilation for {tokens} tokens of {dtype} after the warm-up",
                    f"called `store` for {keys.calls}",
                    KINDS,
                )


@pytest.mark.parametrize("most", [1, 8, 250])
def test_it_calls_no_more_often_than_needed(kata, accelerator, most):
    keys, dtypes = Keys(), (torch.float16, torch.float32)
    kata.warm_up_kinds(keys, most, dtypes)
    needed = len({keys.key_of(n, dtype) for n in range(1, most + 1) for dtype in dtypes})
    if len(keys.calls) > needed:
        fail(f"{needed} calls of `store`", f"made {len(keys.calls)} calls", TOO_MANY)


@pytest.mark.parametrize("most", [1, 8, 15])
def test_no_call_is_larger_than_a_step(kata, accelerator, most):
    keys = Keys()
    kata.warm_up_kinds(keys, most, (torch.float16,))
    largest = max((tokens for tokens, _ in keys.calls), default=0)
    if largest > most:
        fail(f"at most {most} tokens in a call", f"called `store` with {largest} tokens", SMALL)
