"""The embedded demo: a generator of images whose evidence is known, a model trained on them, one image."""
