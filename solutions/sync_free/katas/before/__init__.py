"""What the exercises `find_the_races` and `sync_detector` begin with."""
