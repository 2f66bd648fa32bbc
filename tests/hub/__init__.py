"""Tests of the hub's parts and, if there are root and Node.js, of a real hub with a class."""
