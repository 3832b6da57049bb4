"""The hosts' cache protocol, name by name: what our classes serve, and why not where not."""
