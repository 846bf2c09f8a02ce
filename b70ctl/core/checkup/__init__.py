"""What doctor asks of a box, by neighbour; each judge answers one question from facts that were read."""
