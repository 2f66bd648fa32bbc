"""The expected tokens of a served request, computed one at a time in float32, without blocks or
slots."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from solutions.offload.serving_loop.serving import Server


def generate(server: Server, prefix: int, token: int) -> list[int]:
    """Returns the new tokens of a request with this cached prefix and one more token, computed
    plainly with the server's weights."""
    config, decoder = server.config, server.decoder
    seen = [list(layer.unbind(0)) for layer in prefix_of(server, prefix)]
    tokens = []
    for _ in range(config.new_tokens):
        hidden = decoder.embedding.cpu()[token].float()
        for weights, cached in zip(decoder.layers, seen, strict=True):
            hidden = hidden + _attend(config, _normed(hidden), weights, cached)
            gate, up = (weights["gate_up"].cpu().float() @ _normed(hidden)).chunk(2)
            hidden = hidden + weights["down"].cpu().float() @ (F.silu(gate) * up)
        token = int((decoder.lm_head.cpu().float() @ _normed(hidden)).argmax())
        tokens.append(token)
    return tokens


def prefix_of(server: Server, number: int) -> list[torch.Tensor]:
    """Returns the cached keys and values of the prefix, [tokens, 2, num_kv_heads, head_size] for
    each layer, read from CPU memory."""
    config, hashes = server.config, server.hashes[number]
    blocks = server.manager.prepare_load(hashes)
    server.manager.complete_load(hashes)
    layers = []
    for pair in server.groups[0].tensors:
        rows = pair.cpu[blocks].view(config.dtype).view(len(blocks), *config.block_shape)
        layers.append(rows.transpose(1, 2).flatten(0, 1).float())
    return layers


def _attend(config, hidden, weights, cached):
    rows = (weights["qkv"].cpu().float() @ hidden).view(-1, config.head_size)
    query, key, value = rows.split([config.num_heads, config.num_kv_heads, config.num_kv_heads])
    cached.append(torch.stack([key, value]))
    keys, values = torch.stack(cached).unbind(1)  # [tokens, num_kv_heads, head_size]
    out = []
    for head, of_head in enumerate(query):
        group = head * config.num_kv_heads // config.num_heads
        scores = keys[:, group] @ of_head * config.head_size**-0.5
        out.append(scores.softmax(0) @ values[:, group])
    return weights["out"].cpu().float() @ torch.cat(out)


def _normed(hidden):
    return F.rms_norm(hidden, hidden.shape)
