"""Queues all copies first, with an event after each, and then kernel after kernel."""


def run_batches(batches, compute):
    accelerator = current()
    computing, copying = accelerator.current_stream(), accelerator.stream()
    with copying:
        arrivals = [
            (batch.to(accelerator.device, non_blocking=True), copying.record_event())
            for batch in batches
        ]
    outputs = []
    for batch, arrived in arrivals:
        computing.wait_event(arrived)
        batch.record_stream(computing)
        outputs.append(compute(batch))
    return outputs
