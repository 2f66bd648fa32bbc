"""Everything that the step computes with: a small model, its tables, its requests, and its
ranks."""
