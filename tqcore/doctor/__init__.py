"""What ``tqcore doctor`` finds out: every score kernel, asked and compared on this machine."""
