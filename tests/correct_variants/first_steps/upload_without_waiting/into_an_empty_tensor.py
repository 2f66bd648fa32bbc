"""Pins a tensor that was made in ordinary memory, and copies it to a tensor on the device."""


def upload_tokens(token_ids):
    accelerator = current()
    staging = torch.empty(len(token_ids), dtype=torch.int64, pin_memory=accelerator.pin_memory)
    staging.copy_(torch.tensor(token_ids, dtype=torch.int64))
    ids = torch.empty(len(token_ids), dtype=torch.int64, device=accelerator.device)
    return ids.copy_(staging, non_blocking=True)
