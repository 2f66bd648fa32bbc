"""Starting points of the katas `find_the_races` and `sync_detector`."""
