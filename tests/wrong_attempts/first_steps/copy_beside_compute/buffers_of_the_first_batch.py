"""Makes the buffers as large as the first batch.

fails: test_steps_one_after_another
says: It came from
"""


def run_batches(batches, compute):
    accelerator = current()
    computing, copying = accelerator.current_stream(), accelerator.stream()
    outputs, kept = [], []
    for batch in batches:
        with copying:
            arrived = torch.empty(batches[0].shape, device=accelerator.device)
            arrived.copy_(batch, non_blocking=True)
        kept.append(arrived)
        computing.wait_event(copying.record_event())
        outputs.append(compute(arrived))
    copying.wait_stream(computing)
    return outputs
