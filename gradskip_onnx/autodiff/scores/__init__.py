"""What is differentiated: scores of a class, chosen inside the graph."""
