"""Audits a model on a whole data set: a row of facts and a map for each image, in Parquet files that go on growing."""
