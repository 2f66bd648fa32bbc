"""What those exercises begin with."""
