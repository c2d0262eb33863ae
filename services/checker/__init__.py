"""The checker: has contracts checked on a schedule, and when somebody asks."""
