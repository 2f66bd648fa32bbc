"""What a site refuses, as it was and as it is: on the host, before anything is uploaded."""
