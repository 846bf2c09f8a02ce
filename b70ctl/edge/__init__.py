"""edge touches and decides nothing: one file per neighbour."""
