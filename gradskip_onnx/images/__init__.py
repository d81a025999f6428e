"""Reading and preprocessing images, class names, regions, and the resampling of maps."""
