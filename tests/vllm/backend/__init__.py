"""The backend tier: our attention backend among a release's own objects, against plain attention in float64."""
