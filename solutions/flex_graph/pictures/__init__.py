"""The chapter's drawing of pages and masks."""
