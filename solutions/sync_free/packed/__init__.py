"""Each site in two halves: planned on the host, and applied on the device after one upload."""
