"""Turn admitted changes into one commit's write: fold, prune, choose a strategy, write."""
