"""The drawings of chapter 05: how fast each path copies, and which is the fastest."""
