"""The stack, as every service reaches it: settings, servers, files, errors and progress."""
