"""core decides and touches nothing: no files, processes, network, clock or environment."""
