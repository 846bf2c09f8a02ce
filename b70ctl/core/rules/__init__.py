"""What is known to go wrong, as small rules over a profile, its image and its vLLM."""
