"""Building blocks that several lessons share: uploads and downloads without waits, checks of
integers on the host, and one decoder."""
