"""A planted shortcut, a mark in a corner that tells one class, is caught by an audit: on scenes and on photographs."""
