"""The sites and their pieces before the change: right, but the host waits (vLLM #41429)."""
