"""What a learner does with the katas: see where they are, take the next one, run it, get help."""
