"""One file an explainer: request, `statistic`, `sensitivity`, `explain`. Believing one means believing two functions."""
