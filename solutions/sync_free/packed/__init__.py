"""The sites in two halves each: planned on the host, and applied on the device after one upload."""
