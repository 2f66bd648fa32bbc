"""The same checkpoint served by this engine and by transformers, each in a process of its own."""
