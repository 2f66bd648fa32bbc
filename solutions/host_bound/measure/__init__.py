"""The benchmark of the host-bound server, and requests that are served one by one."""
