"""From disk to recordings, features and federated clients."""
