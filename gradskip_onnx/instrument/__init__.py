"""From what a method needs to a graph that shows it."""
