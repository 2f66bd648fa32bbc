"""What every floor may rest on: what an accelerator is, the errors that both have, and whose line
of code is running."""
