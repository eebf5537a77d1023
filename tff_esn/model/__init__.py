"""An ESN as a model: its inputs, its readout, its training, and the files it is kept in."""
