"""A model from which tokens can be left out: the token axis made free."""
