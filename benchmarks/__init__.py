"""What is measured against what: time and memory of training and generation, beside PyTorch and the bare products."""
