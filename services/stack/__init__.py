"""What every service stands on: settings, how the stack's servers are reached, errors and progress."""
