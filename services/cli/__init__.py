"""The command line: looks at the stack from outside and says what it sees."""
