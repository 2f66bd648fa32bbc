"""The proof that stubs fail as intended, solutions pass, and wrong attempts get their diagnosis."""
