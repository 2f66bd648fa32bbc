"""JupyterHub for a workshop on one host: `make hub` starts it, README.md says how."""
