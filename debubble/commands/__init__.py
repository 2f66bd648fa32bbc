"""The bodies of the subcommands of `debubble`, one module each."""
