"""What several methods share and no row enters: grids, games, surrogates, tails."""
