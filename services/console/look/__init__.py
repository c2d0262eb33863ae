"""Look at the stack, part by part, each as often as it is worth; what is found goes into the house and into metrics."""
