"""What the step of chapter 01 costs, as it was and as it is."""
