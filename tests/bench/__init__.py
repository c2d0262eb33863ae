"""The benchmark: this mirror and its peers on the same topics, one after another on the same machine (`make bench`)."""
