"""What an exercise begins with, where no step runs it."""
