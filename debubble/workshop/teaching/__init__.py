"""What tests of katas expect, compare and hand out, and the diagnosis when it is not so."""
