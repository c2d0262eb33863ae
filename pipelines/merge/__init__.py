"""Admitted changes become one commit's write: fold, prune, choose a strategy, write."""
