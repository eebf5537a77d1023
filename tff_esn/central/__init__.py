"""The centralised model: a readout trained by gradients on everyone's data."""
