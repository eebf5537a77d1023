"""Where TensorFlow Federated computes: a hidden worker of this process, or workers on other hosts."""
