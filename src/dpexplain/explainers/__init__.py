"""One file each: request, `statistic`, `sensitivity`, `explain`. Believing one means believing two functions."""
