"""Training of the demo model and of the test fixtures on scenes with planted evidence."""
