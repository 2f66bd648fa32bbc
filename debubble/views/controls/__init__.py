"""The controls of the views: sliders that have a name on any page."""
