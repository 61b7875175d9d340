"""Small models of what the promises rest on, of which every reachable state is looked at."""
