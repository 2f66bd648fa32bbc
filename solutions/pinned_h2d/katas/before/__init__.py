"""Starting points of katas for which no step ever ran a `before`."""
