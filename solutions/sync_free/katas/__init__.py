"""What only the exercises need: a decode loop, and a detector of waits."""
