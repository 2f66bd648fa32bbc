"""The eight sites as they were: right, and each of them makes the host wait (vLLM #41429)."""
