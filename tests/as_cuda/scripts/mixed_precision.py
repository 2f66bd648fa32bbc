"""Uses torch.amp with a scaler, by its new name and by its old one."""

import warnings

import torch

warnings.simplefilter("ignore", FutureWarning)
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.benchmark = True
model = torch.nn.Linear(8, 8, device="cuda")
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
data = torch.randn(4, 8, device="cuda")
for _ in range(2):
    with torch.autocast("cuda", dtype=torch.float16):
        out = model(data)
        assert out.dtype == torch.float16
        loss = out.float().pow(2).mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)  # waits: a value x2
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
with torch.cuda.amp.autocast(dtype=torch.bfloat16):
    assert model(data).dtype == torch.bfloat16
assert torch.cuda.is_bf16_supported()
