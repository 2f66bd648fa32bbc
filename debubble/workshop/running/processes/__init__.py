"""The processes that run tests for pytest: a fork of it, or one that forks for it."""
