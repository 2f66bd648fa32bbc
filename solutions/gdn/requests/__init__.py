"""The requests of a batch, split by kind, and the metadata that the chunked rule reads of them."""
