"""Facts: what is known of the stack, for whoever shows it. The command line and the console say the same numbers."""
