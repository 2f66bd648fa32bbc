"""Where KV blocks lie, in device memory and in host memory."""
