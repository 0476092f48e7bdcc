"""Several requests under one reservation: planned together, read in shared passes, released through one door."""
