"""Events that no database knows: clicks in the shop, logs of its applications, readings of a factory floor."""
