"""Controls: code that leaves out one guard, or has a fault that another engine shipped. A named
test must fail on each, and on sim the race that the guard prevents is proved.

`controls.toml` has the controls, `python -m tests.controls` runs them and writes docs/guards.md.
"""
