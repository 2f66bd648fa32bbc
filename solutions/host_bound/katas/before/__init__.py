"""The katas of chapter 07 before their change."""
