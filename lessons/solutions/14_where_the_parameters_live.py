"""Solutions to the exercises of lesson 14."""


def block_parameters(d, hidden):
    attention = 4 * (d * d + d)
    feed_forward = d * hidden + hidden + hidden * d + d
    norms = 2 * 2 * d
    return attention + feed_forward + norms


def model_parameters(layers, block, d, vocabulary, context, tied):
    tables = vocabulary * d + context * d
    head = 0 if tied else vocabulary * d
    return layers * block + tables + 2 * d + head


def count(saved):
    return sum(array.size for array in {id(array): array for array in saved.values()}.values())


def multiplications(n, d):
    return n * 12 * d * d, 2 * n * n * d
