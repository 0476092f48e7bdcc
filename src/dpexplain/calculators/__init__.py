"""What can be computed about a promise without a table."""
