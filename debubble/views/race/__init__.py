"""The race: two small programs side by side, run in the browser by the clock's rules."""
