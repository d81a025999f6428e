"""Images in, maps out: files, preprocessing, classes, regions and the resampling of maps."""
