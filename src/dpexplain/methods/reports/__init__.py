"""One page for people about a model and a table: a batch of releases, and what can be read off them, free."""
