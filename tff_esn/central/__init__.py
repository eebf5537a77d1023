"""The centralised model: a readout trained by gradients on all data."""
