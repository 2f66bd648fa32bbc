"""`debubble board FOLDER`: a group's progress, live, read from their files and from nothing
else."""
