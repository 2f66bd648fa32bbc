"""How long loads of KV blocks take: of one prefix, over a grid of copies, and in a serving loop."""
