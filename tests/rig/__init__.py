"""What the demo, the tests and CI need in place of hardware: an engine, its images, a daemon, card nodes."""
