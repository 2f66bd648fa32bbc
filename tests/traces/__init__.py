"""Tests of traces that other programs wrote."""
