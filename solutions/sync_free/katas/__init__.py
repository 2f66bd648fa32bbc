"""The loop of the kata `find_the_races` and the detector of `sync_detector`, which only they
run."""
