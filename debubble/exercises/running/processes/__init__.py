"""The processes that run tests for pytest: a fork of pytest, or an interpreter that forks for
it."""
