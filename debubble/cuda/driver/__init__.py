"""The driver's information about addresses, and its copies by address."""
