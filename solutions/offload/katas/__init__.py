"""What only exercises need: two solutions that no system runs, and what all five were before."""
