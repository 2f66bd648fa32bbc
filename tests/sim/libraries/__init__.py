"""Models of other libraries on sim; the tests step aside where these aren't installed."""
