"""Measures the step of chapter 01 before and after the change."""
