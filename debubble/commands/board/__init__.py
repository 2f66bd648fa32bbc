"""`debubble board FOLDER`: a group's live progress, read from their progress files only."""
