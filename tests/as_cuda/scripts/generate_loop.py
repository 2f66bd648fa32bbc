"""Decodes greedily, token by token, until all sequences have ended."""

import torch
from torch import nn

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8, device="cuda")
        self.head = nn.Linear(8, 20, bias=False, device="cuda")

    def forward(self, ids):
        return self.head(self.embed(ids))


@torch.inference_mode()
def generate(model, ids, steps, end=3):
    done = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    for _ in range(steps):
        token = model(ids[:, -1]).argmax(-1)
        token = torch.where(done, torch.full_like(token, end), token)
        done = done | (token == end)
        ids = torch.cat([ids, token[:, None]], dim=1)
        if done.all():  # waits: a value x4
            break
    return ids


model = Model().eval()
prompt = torch.tensor([[5, 6], [7, 8]], device="cuda:0")  # waits: a pageable upload
ids = generate(model, prompt, 4)
text = ids.tolist()  # waits: a download
assert len(text[0]) == 6
