"""The chapter's drawings."""
