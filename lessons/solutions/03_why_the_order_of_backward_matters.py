"""Solutions to the exercises of lesson 3."""


def is_topological(order, graph):
    place = {name: i for i, name in enumerate(order)}
    return all(place[name] < place[source] for name in graph for source, _ in graph[name])


def count_paths(graph, start, end):
    paths = dict.fromkeys(graph, 0)
    paths[end] = 1
    for name in reversed(graph):
        for source, _ in graph[name]:
            paths[source] += paths[name]
    return paths[start]


def gradients(graph, result):
    grad = dict.fromkeys(graph, 0.0)
    grad[result] = 1.0
    for name in reversed(graph):
        for source, slope in graph[name]:
            grad[source] += grad[name] * slope
    return grad
