"""What readers turn: sliders that have a name, whatever page they stand in."""
