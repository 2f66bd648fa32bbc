"""The eight sites before the change: right, and each of them makes the host wait (vLLM #41429)."""
