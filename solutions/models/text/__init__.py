"""Text in and text out: a checkpoint's tokenizer, and answers that stream part by part."""
