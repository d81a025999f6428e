"""Two more models to judge methods on, trained on photographs: CIFAR-10, and the blood cells of BCCD.

They differ from the models of `benchmarks.planted` and from DeiT in size, tokens, pooling and normalisation, so that a
method chosen on all of them is not chosen for one family. Neither the data nor the files are part of the repository.
"""
