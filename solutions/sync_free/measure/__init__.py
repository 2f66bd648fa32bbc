"""What a step costs, as it was and as it is."""
