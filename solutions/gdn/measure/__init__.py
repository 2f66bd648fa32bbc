"""What a prefill is compared with, and how long its planning takes."""
