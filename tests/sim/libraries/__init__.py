"""Models of other libraries on sim; tests are skipped if the library isn't installed."""
