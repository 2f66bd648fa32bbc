"""Inference of a BERT-like encoder classifier with a padding mask over a batch copied from host memory each step."""

from typing import Callable, List, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, DIM, HEADS, LAYERS, SEQ, BATCH, CLASSES = 8000, 192, 6, 4, 96, 8, 5


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(DIM, DIM)
        self.key = nn.Linear(DIM, DIM)
        self.value = nn.Linear(DIM, DIM)
        self.out = nn.Linear(DIM, DIM)

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (HEADS, DIM // HEADS)).transpose(1, 2)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q, k, v = self._heads(self.query(x)), self._heads(self.key(x)), self._heads(self.value(x))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn = SelfAttention()
        self.norm1 = nn.LayerNorm(DIM, eps=1e-12)
        self.fc1 = nn.Linear(DIM, 4 * DIM)
        self.fc2 = nn.Linear(4 * DIM, DIM)
        self.norm2 = nn.LayerNorm(DIM, eps=1e-12)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.norm1(x + self.attn(x, mask))
        return self.norm2(x + self.fc2(F.gelu(self.fc1(x))))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.word = nn.Embedding(VOCAB, DIM, padding_idx=0)
        self.position = nn.Embedding(SEQ, DIM)
        self.segment = nn.Embedding(2, DIM)
        self.norm = nn.LayerNorm(DIM, eps=1e-12)
        self.layers = nn.ModuleList(EncoderLayer() for _ in range(LAYERS))
        self.pooler = nn.Linear(DIM, DIM)
        self.classifier = nn.Linear(DIM, CLASSES)
        self.register_buffer("position_ids", torch.arange(SEQ).unsqueeze(0))

    def forward(
        self, ids: torch.Tensor, segments: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        x = self.word(ids) + self.position(self.position_ids) + self.segment(segments)
        x = self.norm(x)
        mask = attention_mask[:, None, None, :].bool()
        for layer in self.layers:
            x = layer(x, mask)
        return self.classifier(torch.tanh(self.pooler(x[:, 0])))


def make(device: torch.device) -> Callable[[], None]:
    torch.manual_seed(21)
    model = Encoder().to(device).eval()
    pin = device.type != "cpu"
    batches: List[Tuple[torch.Tensor, ...]] = []
    for _ in range(4):
        lengths = torch.randint(SEQ // 4, SEQ + 1, (BATCH, 1))
        attention_mask = (torch.arange(SEQ).unsqueeze(0) < lengths).long()
        ids = torch.randint(1, VOCAB, (BATCH, SEQ)) * attention_mask
        segments = (torch.arange(SEQ).unsqueeze(0) >= lengths // 2).long() * attention_mask
        batch = (ids, segments, attention_mask)
        batches.append(tuple(t.pin_memory() for t in batch) if pin else batch)
    count = 0
    last = None

    @torch.inference_mode()
    def step() -> None:
        nonlocal count, last
        ids, segments, mask = (
            t.to(device, non_blocking=True) for t in batches[count % len(batches)]
        )
        count += 1
        probs = F.softmax(model(ids, segments, mask), dim=-1)
        confidence, label = probs.max(dim=-1)
        last = (confidence.cpu(), label.cpu())

    return step
