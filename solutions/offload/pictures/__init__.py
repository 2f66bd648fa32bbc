"""What chapter 05 draws: who copies how fast, and who is the fastest."""
