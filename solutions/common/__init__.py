"""What several lessons stand on: uploads, downloads, and the numbers that a host may know."""
