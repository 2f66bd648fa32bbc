"""The peer of decode steps: a compiled PyTorch model in a process of its own."""

import pytest
import torch
import torch.nn.functional as F

from solutions.flex_graph.measure.compiled_peer import CompiledPeer, PeerShape, StaticDecoder

SHAPE = PeerShape(
    num_layers=2,
    hidden_size=32,
    intermediate_size=64,
    num_heads=4,
    num_kv_heads=2,
    head_size=16,
    vocab_size=50,
    cached=(0, 0),
    max_model_len=16,
    num_steps=4,
)


def whole_at_once(decoder, ids):
    """Returns the logits, [requests, tokens, vocabulary], of one forward pass over all tokens `ids`
    [requests, tokens] in plain PyTorch, without a cache."""
    shape, (_, tokens) = decoder.shape, ids.shape
    sizes, repeats = shape.head_size, shape.num_heads // shape.num_kv_heads
    turn = decoder.cos[:tokens], decoder.sin[:tokens]
    hidden = decoder.embedding[ids]
    for qkv, out, gate_up, down, _, _ in decoder.layers:
        projected = F.linear(decoder._normed(hidden), qkv).unflatten(2, (-1, sizes)).transpose(1, 2)
        query, key, value = projected.split(
            (shape.num_heads, shape.num_kv_heads, shape.num_kv_heads), 1
        )
        query, key = (torch.cat(halves(part, *turn), -1).to(query.dtype) for part in (query, key))
        key, value = (part.repeat_interleave(repeats, 1) for part in (key, value))
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + F.linear(attended.transpose(1, 2).flatten(2), out)
        gate, up = F.linear(decoder._normed(hidden), gate_up).chunk(2, -1)
        hidden = hidden + F.linear(F.silu(gate) * up, down)
    return F.linear(decoder._normed(hidden), decoder.head)


def halves(heads, cos, sin):
    first, second = heads.float().chunk(2, -1)
    return first * cos - second * sin, second * cos + first * sin


def test_token_by_token_the_peer_gives_what_one_forward_over_all_gives():
    torch.manual_seed(0)
    decoder = StaticDecoder(SHAPE, "cpu")
    ids = torch.randint(SHAPE.vocab_size, (2, 6))
    right = whole_at_once(decoder, ids).float()
    for position in range(ids.shape[1]):
        found = decoder.step(ids[:, position], torch.full((2,), position))
        assert (found.float() - right[:, position]).abs().max() <= 3e-2 * right.abs().max()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU for the peer")
def test_a_peer_that_can_not_start_says_why_in_one_sentence():
    with pytest.raises(RuntimeError, match=r"^the compiled peer can't be measured: .+$"):
        CompiledPeer(SHAPE).__enter__()


@pytest.mark.gpu
def test_the_peer_answers_with_a_time_as_often_as_it_is_asked(accelerator):
    with CompiledPeer(SHAPE) as peer:
        assert all(peer.step_us() > 0 for _ in range(3))
