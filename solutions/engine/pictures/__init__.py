"""The chapter's dashboard, and the recordings that it shows."""
