"""Where TensorFlow Federated computes: a worker of this process, or workers on other hosts."""
