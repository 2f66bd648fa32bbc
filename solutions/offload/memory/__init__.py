"""Layout of KV blocks in device memory and in host memory."""
