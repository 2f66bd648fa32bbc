"""What whoever teaches takes along: `make kit` makes it of the chapters and katas, offline."""
