"""Equal graphs in other words: fused operators written out, arithmetic that nobody reads left out."""
