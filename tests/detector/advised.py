"""Typical code of training, inference and data loading, in which the host waits. A comment on each
line has the first words of the advice, or `nothing` if no way around the wait is known."""

import math
from collections import Counter

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def train(device):
    """Runs three steps of a training loop. Several steps let the detector tell set-up from
    steps."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    model.to(device)  # instead: it is set-up
    xs, ys = torch.randn(12, 8), torch.randint(0, 4, (12,))
    scale = torch.ones(4).exp().to(device)  # instead: make it on the device
    shift = xs[0, :4].to(device)  # instead: it is set-up
    losses, correct, total, ema, metrics = [], 0, 0.0, 0.0, Counter()
    for step in range(3):
        x = xs[4 * step : 4 * step + 4].to(device)  # instead: pin the source (pin_memory(), DataL
        y = ys[4 * step : 4 * step + 4].to(device, non_blocking=True)  # instead: pin the source
        weight = torch.from_numpy(np.ones(4, "float32")).to(device)  # instead: upload the array
        heat = torch.tensor(0.7 + step, device=device)  # instead: torch.full((), value
        means = torch.tensor([0.4, 0.5], device=device)  # instead: make the tensor once
        mask = torch.tril(torch.ones(4, 4)).to(device)  # instead: make it on the device
        out = model(x) * scale + shift / heat
        loss = F.cross_entropy(out, y, weight=weight) + means.sum() * mask.sum()
        if torch.isnan(loss):  # instead: keep the flag on the device
            break
        loss.backward()
        total_norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        norm = float(total_norm)  # instead: keep it on the device
        if total_norm > 1000:  # instead: torch.where(condition, a, b) or a mask
            continue
        metrics.update([loss.item()])  # instead: add it up on the device: give the meter
        losses.append(loss.item())  # instead: keep x.detach() in the list
        total += loss.item() * len(x)  # instead: add it up on the device
        ema = 0.9 * ema + 0.1 * float(loss)  # instead: keep it on the device
        prediction = out.argmax(1)
        correct += (prediction == y).sum().item()  # instead: add it up on the device
        accuracy = (prediction == y).float().mean().item()  # instead: count it on the device
        print(f"step {step}: {loss:.3f}", norm)  # instead: log every n steps
        print("predicted", prediction)  # instead: log every n steps, or
        print(loss.item(), total_norm.item())  # instead: log every n steps, and bring all numbers
        if step % 2 == 0:
            print("loss", loss.item())  # instead: it is read every few steps only
        [0, 1, 2, 3].remove(y.argmax().item())  # instead: take all of them to the host once
        leaf = torch.ones(4, 4, device=device, requires_grad=True)
        chosen = leaf[torch.arange(4), y]  # instead: make the index on the device
        chosen.sum().backward()  # instead: make the index of the forward pass
        perplexity = math.exp(loss.item())  # instead: torch's function of that name
        best = max(out[0, 0], out[0, 1])  # instead: torch.maximum(a, b)
        factor = 0.5 if loss > 1 else 1.0  # instead: torch.where(condition, a, b)
        assert (y >= 0).all()  # instead: torch._assert_async(condition)
        while loss > 1e9:  # instead: run a fixed number of iterations
            loss = loss / 2
        same = torch.equal(y, prediction)  # instead: (a == b).all() stays
        rows = [v.item() for v in (loss, total_norm)]  # instead: x.tolist(), or torch.stack
        probabilities = out.softmax(1).detach().cpu().numpy()  # instead: compute with torch
        logged = "%.3f" % loss  # noqa: UP031  # instead: log every n steps
        torch.randn(4, 4).pin_memory().to(device)  # instead: make it on the device
        pinned = torch.empty(4, 4).pin_memory().copy_(xs[:4, :4])
        pinned.to(device)  # instead: add non_blocking=True
        pinned[:, :3].to(device, non_blocking=True)  # instead: make it contiguous
        pinned[:, :3].copy_(out[:, :3].detach(), non_blocking=True)  # instead: make the target cont
        torch.empty(4, 4).copy_(out, non_blocking=True)  # instead: copy into pinned memory
        values = [0.1, step]
        torch.tensor(values).to(device)  # instead: torch.tensor(values, pin_memory=True)
        torch.tensor(values, device=device)  # instead: torch.tensor(values, pin_memory=True)
        x.new_tensor(values)  # instead: torch.tensor(values, pin_memory=True).to(x.device
        torch.as_tensor(np.arange(3), device=device)  # instead: upload the array once
        torch.BoolTensor([True, False]).to(device)  # instead: make the tensor once
        torch.accelerator.synchronize()  # instead: leave it out
    return losses, correct, accuracy, perplexity, best, factor, same, rows, probabilities, logged


def index(device):
    """Reads and writes tensors with indices, masks, sizes and numbers, in ways that make the host
    wait."""
    x, ids = torch.randn(4, 4, device=device), torch.arange(4, device=device) % 3
    lengths = ids + 1
    table, where = [10, 20, 30], np.array([0, 2])
    for step in range(3):
        valid = x[ids > 0]  # instead: torch.where(mask, x, fill)
        mean = x[ids > 0].mean()  # instead: (x * mask).sum() / mask.sum()
        x[x < 0] *= 0.5  # instead: torch.where(mask, changed, x)
        x[ids > 1] = valid[:1] * mean  # instead: torch.where(mask, value, x)
        x[0, 1] = 3.0  # instead: x[...].fill_(value)
        x[ids] = 1.0  # instead: x.index_fill_(0, index, value)
        x[ids, ids] = 2.0  # instead: x.index_put_((i, j), x.new_full
        x[0] = torch.zeros(4)  # instead: x[...].copy_(value, non_blocking=True)
        x[ids[0], ids[1]] += 1  # instead: c.index_put_((i, j), one, accumulate
        x[ids[1]] = 0.0  # instead: x.index_copy_(0, position.view(1)
        x[:, ids[0]]  # instead: x.index_select(0, position.view(1))
        x[: ids[1]]  # instead: know the bound on the host
        x[where]  # instead: upload the index once: index = torch.from
        x[[0, 2, step]]  # instead: upload the index once: index = torch.tensor
        x[torch.arange(2), ids[:2]]  # instead: make the index on the device: torch.arange(
        x[torch.tensor([1, step])]  # instead: upload the index once, from pinned
        table[ids[0]]  # instead: make the list a tensor on the device
        torch.tensor([x[0, 0], x[1, 1]])  # instead: torch.stack([...])
        torch.where(x > 0, x, torch.tensor(0.0))  # instead: write a Python number
        rows = (ids > 0).nonzero()  # instead: stay with the mask
        for row in (ids > 0).nonzero():  # instead: loop over all of them and mask
            x.select(0, 0) + row.sum()
        torch.where(ids > 1)[0]  # instead: stay with the mask
        torch.masked_select(x, x > 0)  # instead: torch.where(mask, x, fill)
        torch.unique(ids)  # instead: to count them for a log
        torch.unique(rows, dim=0)  # instead: find the unique values on the host
        torch.bincount(ids)  # instead: torch.zeros(n, device=device).scatter_add_
        torch.histc(x, 4)  # instead: pass the range
        F.one_hot(ids)  # instead: pass the number of classes
        ids.repeat_interleave(lengths)  # instead: pass the length
        lengths.max().item()  # instead: if the host made these numbers, take their max
        int(lengths.sum())  # instead: if the host made these numbers, take their sum
        torch.zeros(int(ids[1]), device=device)  # instead: know the number on the host
        torch.arange(lengths[0], device=device)  # instead: know the number on the host
        x.split([*lengths[:1].tolist(), 3])  # instead: know the number on the host
        if 3 in ids:  # instead: (x == value).any() stays
            break
        if torch.any(ids > 100).item():  # instead: torch.where(condition, a, b) or a mask
            break
        torch.linalg.inv(torch.eye(3, device=device))  # instead: torch.linalg.inv_ex
        torch.linalg.eigvalsh(torch.eye(3, device=device))  # instead: nothing
        (x > 0).type(torch.BoolTensor)  # instead: x.to(torch.bool)


def generate(device):
    """Generates tokens and actions in ways that make the host wait, and calls PyTorch functions
    whose own Python code waits."""
    layer = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 1).eval()
    encoder.to(device)  # instead: it is set-up
    causal = nn.Transformer.generate_square_subsequent_mask(3).to(device)  # instead: it is set-up
    logits, history, counts = torch.randn(1, 9, device=device), [], np.zeros((9, 9))
    step_of = env = Environment()
    for _ in range(3):
        token = logits.argmax(-1)
        if token.item() == 10:  # instead: torch.where(condition, a, b) or a mask
            break
        if (token == step_of.eos_token_id).all():  # instead: keep a flag of what is finished
            break
        next_token = int(token)  # instead: keep the tokens on the device
        env.step(token.cpu().numpy())  # instead: copy the actions to the host once a step
        history += [token.item()]  # instead: keep x.detach() in the list
        counts[token.item(), next_token] += 1  # instead: keep the table on the device
        score = logits.max().item()  # instead: keep it on the device (x.detach()): op
        scores = {k: v.cpu() for k, v in {"a": logits, "b": logits}.items()}  # instead: copy all of
        torch.distributions.Categorical(logits=logits)  # instead: pass validate_args=False
        x = torch.randn(2, 3, 8, device=device)
        encoder(x, mask=causal)  # instead: pass is_causal=True
        nn.utils.clip_grad_norm_(logits, 1.0, error_if_nonfinite=True) if score > 1e9 else scores
        with torch.no_grad():
            torch.cat([logits, logits]).cpu()  # instead: copy into pinned memory
    logits.sum().item()  # instead: it comes after the last step


class Environment:
    eos_token_id = 12

    def step(self, action):
        pass
