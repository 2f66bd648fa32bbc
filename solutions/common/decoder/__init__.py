"""A decoder that lessons and the engine share: its shape, its layers in two halves, their KV cache,
and its embedding and head. The caller chooses the attention between the halves."""
