"""What the answers to lesson 3 are tried on, and the mistakes that are known."""

from lessons.exercise import Exercise, Wrong

TWICE = {"a": [], "b": [("a", 1.0), ("a", 1.0)], "c": [("b", 1.0), ("b", 1.0)]}
SPLIT = {"x": [], "u": [("x", 2.0)], "v": [("x", -1.0), ("u", 3.0)], "y": [("u", 0.5), ("v", 4.0)]}
LAYERS = {
    "x": [], "f": [("x", 0.5)], "h": [("x", 1.0), ("f", 1.0)], "g": [("h", -2.0)], "y": [("h", 1.0), ("g", 1.0)],
    "other": [("g", 1.0)],
}  # fmt: skip


SLOW = "the same numbers are walked again and again, 2 ** 40 times in 40 sums. Visit each once, when all is there."


def doubled(n):
    """n sums in a row, each of the one before with itself."""
    graph = {"n0": []}
    for i in range(n):
        graph[f"n{i + 1}"] = [(f"n{i}", 1.0), (f"n{i}", 1.0)]
    return graph


def _orders(rng):
    return [
        (["c", "b", "a"], dict(TWICE)), (["a", "b", "c"], dict(TWICE)), (["c", "a", "b"], dict(TWICE)),
        (["y", "v", "u", "x"], dict(SPLIT)), (["y", "u", "v", "x"], dict(SPLIT)), (["x", "u", "v", "y"], dict(SPLIT)),
        (["y", "other", "g", "h", "f", "x"], dict(LAYERS)), (["other", "y", "g", "h", "f", "x"], dict(LAYERS)),
        (["y", "g", "other", "h", "f", "x"], dict(LAYERS)), (["y", "other", "g", "f", "h", "x"], dict(LAYERS)),
        (["x", "y", "other", "g", "h", "f"], dict(LAYERS)),
    ]  # fmt: skip


def _forwards(order, graph):
    place = {name: i for i, name in enumerate(order)}
    return all(place[source] < place[name] for name in graph for source, _ in graph[name])


def _first_source_only(order, graph):
    place = {name: i for i, name in enumerate(order)}
    return all(place[name] < place[graph[name][0][0]] for name in graph if graph[name])


def _neighbours_only(order, graph):
    return all(earlier not in [source for source, _ in graph[later]] for earlier, later in zip(order, order[1:]))


def _exactly_reversed(order, graph):
    return list(order) == list(reversed(graph))


def _paths(graph, start, end, uses=True, forwards=False, itself=1):
    paths = dict.fromkeys(graph, 0)
    paths[end] = 1
    for name in graph if forwards else reversed(graph):
        for source in [source for source, _ in graph[name]] if uses else {source for source, _ in graph[name]}:
            paths[source] += paths[name]
    return paths[start] if start != end else itself


def _lines(graph, start, end):
    return sum(source == start for name in graph for source, _ in graph[name])


def _all_lines(graph, start, end):
    return sum(len(sources) for sources in graph.values())


def _walk(graph, result, replace=False, uses=True, forwards=False, start=1.0, slopes=True, base=0.0):
    grad = dict.fromkeys(graph, base)
    grad[result] = start
    for name in graph if forwards else reversed(graph):
        for source, slope in graph[name] if uses else dict(graph[name]).items():
            share = grad[name] * slope if slopes else grad[name]
            grad[source] = share if replace else grad[source] + share
    return grad


def _at_once(graph, result):
    grad = dict.fromkeys(graph, 0.0)
    grad[result] = 1.0

    def visit(name):
        for source, slope in graph[name]:
            grad[source] += grad[name] * slope
            visit(source)

    visit(result)
    return grad


def _ends_are_results(graph, result):
    used = {source for name in graph for source, _ in graph[name]}
    grad = {name: float(name not in used or name == result) for name in graph}
    for name in reversed(graph):
        for source, slope in graph[name]:
            grad[source] += grad[name] * slope
    return grad


def _from_the_last(graph, result):
    return _walk(graph, list(graph)[-1])


EXERCISES = [
    Exercise(
        "is_topological",
        cases=_orders,
        wrong=[
            Wrong(
                "forwards",
                _forwards,
                "That is the order of the run. Backward goes the other way: a number comes before what it was made of.",
            ),
            Wrong(
                "first source only",
                _first_source_only,
                "You look at the first thing that a number was made of. It has to come before all of them.",
            ),
            Wrong(
                "neighbours only",
                _neighbours_only,
                "You compare neighbours in the list. What a number was made of may stand anywhere after it: compare places.",
            ),
            Wrong(
                "the reverse of the making only",
                _exactly_reversed,
                "The newest first is one such order, but not the only one: numbers that do not depend on each other may swap.",
            ),
            Wrong(
                "always",
                lambda order, graph: True,
                "Some of the orders come too early somewhere: look at each pair of a number and what it was made of.",
            ),
        ],
    ),
    Exercise(
        "count_paths",
        cases=lambda rng: [
            (dict(TWICE), "a", "c"),
            (dict(SPLIT), "x", "y"),
            (dict(LAYERS), "x", "y"),
            (dict(LAYERS), "h", "y"),
            (dict(LAYERS), "y", "x"),
            (dict(LAYERS), "g", "g"),
            (doubled(3), "n1", "n3"),
            (doubled(40), "n0", "n40"),
        ],
        long=1,
        slow=SLOW,
        wrong=[
            Wrong(
                "one line for two uses",
                lambda graph, start, end: _paths(graph, start, end, uses=False),
                "b = a + a uses a twice: that is two lines, and two paths. Do not put what a number was made of into a set.",
            ),
            Wrong(
                "lines out of start",
                _lines,
                "You count the lines that leave start. Each of them may go on in several ways: add up the paths behind it.",
            ),
            Wrong(
                "uses in end alone",
                lambda graph, start, end: sum(source == start for source, _ in graph[end]),
                "You count how often `end` itself uses start. Paths also go by way of the numbers in between.",
            ),
            Wrong(
                "all lines",
                _all_lines,
                "You count the lines of the graph. A path is a whole way from start to end: n sums in a row have 2 ** n.",
            ),
            Wrong(
                "wrong way through the graph",
                lambda graph, start, end: _paths(graph, start, end, forwards=True),
                "A number's count is not complete when you use it: go from end back, over reversed(graph).",
            ),
            Wrong(
                "no path to itself",
                lambda graph, start, end: _paths(graph, start, end, itself=0),
                "From a number to itself there is one path, the empty one. It is what the counting begins with.",
            ),
        ],
    ),
    Exercise(
        "gradients",
        cases=lambda rng: [
            (dict(TWICE), "c"),
            (dict(SPLIT), "y"),
            (dict(LAYERS), "y"),
            (dict(LAYERS), "h"),
            (doubled(40), "n40"),
        ],
        long=1,
        slow=SLOW,
        wrong=[
            Wrong(
                "at once",
                _at_once,
                "You go on as soon as a share arrives, and send again what was sent before. Wait until all are there.",
            ),
            Wrong(
                "replaced",
                lambda graph, result: _walk(graph, result, replace=True),
                "A share replaces the one before it. Each use adds its share: += and not =.",
            ),
            Wrong(
                "oldest first",
                lambda graph, result: _walk(graph, result, forwards=True),
                "You go from the oldest number on: nothing has arrived there yet. Use reversed(graph), the newest first.",
            ),
            Wrong(
                "one line for two uses",
                lambda graph, result: _walk(graph, result, uses=False),
                "b = a + a uses a twice, so a gets two shares. A dict or a set of what b was made of keeps only one.",
            ),
            Wrong(
                "no slopes",
                lambda graph, result: _walk(graph, result, slopes=False),
                "You pass the gradient on as it is. A share is the gradient times the slope that stands with the name.",
            ),
            Wrong(
                "begun with 0",
                lambda graph, result: _walk(graph, result, start=0.0),
                "All zeros: nothing was sent. The result has gradient 1 with respect to itself; begin with that.",
            ),
            Wrong(
                "begun with 1 everywhere",
                lambda graph, result: _walk(graph, result, base=1.0),
                "Every number begins with 1 in your answer. Only `result` does; all others begin with 0.0 and collect shares.",
            ),
            Wrong(
                "every end begins with 1",
                _ends_are_results,
                "A number that nothing was made from gets 1 in your answer. Unless it is `result`, it gets 0.0.",
            ),
            Wrong(
                "begun at the last",
                _from_the_last,
                "You begin at the number that was made last. Begin at `result`: what was made after it gets 0.0.",
            ),
        ],
        properties=[("there is a gradient for every name", lambda grad, graph, result: set(grad) == set(graph))],
    ),
]
