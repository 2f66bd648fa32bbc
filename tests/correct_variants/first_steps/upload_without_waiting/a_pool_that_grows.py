"""Has a pool of pinned buffers with events, which grows by as many as are in flight at once."""

POOL = []


def upload_tokens(token_ids):
    values = torch.tensor(token_ids, dtype=torch.int64)
    for number, (buffer, done) in enumerate(POOL):
        if len(buffer) >= len(values) and done.query():
            del POOL[number]
            break
    else:
        pin_memory = current().pin_memory
        buffer = torch.empty(max(len(values), 4096), dtype=torch.int64, pin_memory=pin_memory)
        done = current().event()
    staging = buffer[: len(values)].copy_(values)
    uploaded = staging.to(current().device, non_blocking=True)
    done.record()
    POOL.append((buffer, done))
    return uploaded
