"""The drawing of chapter 07: buckets and their padding."""
