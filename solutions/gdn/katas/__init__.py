"""Solutions of katas that the system itself doesn't run; each module says why."""
