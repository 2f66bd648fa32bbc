"""The tables of a step: whose a token is, where a block lies in a request, which pages a group of
tokens reads. step_tables makes them anew, device_build in memory that stays."""
