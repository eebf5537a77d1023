"""The centralised model: a reservoir and a readout, trained on everyone's data."""
