"""The four pieces as they were: right, and each of them makes the host wait (vLLM #41429)."""
