"""How far the files of one trained model drift apart when they are quantised: the measurements of docs/compare.md."""
