"""From images to explanations, one or many."""
