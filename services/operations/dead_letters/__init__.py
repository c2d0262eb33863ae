"""Dead letters: finding them, and what is done with them."""
