"""What the driver says of addresses, and the copies that it makes by address."""
