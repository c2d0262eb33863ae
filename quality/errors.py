"""What is wrong with a contract."""


class ContractError(Exception):
    """A contract can't be used. The message names the file, the place in it, what is wrong, and what could be meant."""
