"""From logits to tokens, as each request wishes: chosen on the device, by one launch that a graph
can hold."""
