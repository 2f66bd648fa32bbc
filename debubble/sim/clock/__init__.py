"""Time on sim: what work costs, when it runs, on which stream, and what nothing orders."""
