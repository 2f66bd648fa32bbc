"""What only two exercises run: the loop of `find_the_races`, the detector of `sync_detector`."""
