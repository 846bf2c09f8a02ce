"""b70ctl: serve models on Intel Arc Pro B70 cards, and switch them without fear."""

__version__ = "0.1.0"
