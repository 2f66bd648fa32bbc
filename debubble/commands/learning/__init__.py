"""The learner's commands for the katas: see where they are, take the next one, run it, get help."""
