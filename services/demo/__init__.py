"""`make demo`: the promise shown and proved in five minutes on a running stack."""
