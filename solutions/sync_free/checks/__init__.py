"""The checks of the sites, the same before and after the change: on the host, before any upload."""
