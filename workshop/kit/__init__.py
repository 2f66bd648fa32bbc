"""The material for a teacher: `make kit` makes it from the chapters and katas, offline."""
