"""The dashboard of chapter 06, and the recordings that it shows."""
