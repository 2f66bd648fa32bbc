"""Text in and text out: a checkpoint's tokenizer, and answers that are read while they come."""
