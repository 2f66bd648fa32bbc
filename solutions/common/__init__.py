"""What several lessons stand on: uploads and downloads that nobody waits for, integers that the
host has without asking the device, and one decoder."""
