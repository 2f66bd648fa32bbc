"""The chapter's drawing of a batch cut into chunks."""
