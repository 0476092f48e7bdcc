"""Pictures, pages and tables. This layer sees results, never data."""
