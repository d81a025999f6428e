"""A model that can be asked: sessions for what a method needs, and the passes through them."""
