"""Where each token is

“Dog bites man” and “man bites dog” are made of the same three words. How does attention tell them apart?

Systems: S13, S14, S20, S21, S22, S23
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="11 · Where each token is")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from lessons.page import check_button, exercises, links, show

    return check_button, exercises, links, mo, show


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Where each token is

    “Dog bites man” and “man bites dog” are made of the same three words. How does attention tell them apart? It does not. A
    score is a product of two vectors, and nothing in the product says where either of them stood. A head sees a bag of words.
    Give three words a vector each, let every word be its own query, key and value, and turn the sentence round.
    """)
    return


@app.cell
def _():
    import numpy as np

    import viz
    from tinygrad_tf import Tensor, nn
    from tinygrad_tf.models import Decoder, DecoderConfig
    from viz.figures import controls, rotary_arrows, sinusoidal_map, walk

    return (
        Decoder,
        DecoderConfig,
        Tensor,
        controls,
        nn,
        np,
        rotary_arrows,
        sinusoidal_map,
        viz,
        walk,
    )


@app.cell
def _(Tensor, np):
    def attend(x):
        return Tensor(x @ x.T / np.sqrt(x.shape[1])).softmax(-1).array @ x

    dog, bites, man = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    said = attend(np.stack([dog, bites, man]))
    turned_round = attend(np.stack([man, bites, dog]))
    assert np.allclose(said, turned_round[::-1])  # the same three reads, in the other order
    said.round(3)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Each word reads exactly the same in both sentences: shuffle the rows that go in, and the rows that come out are shuffled
    in the same way. The word for it is **permutation-equivariant**. The feed-forward network and the norms do not help; they
    work on one row at a time. Here is the engine's own layer with random weights on six rows: how far is the shuffled output
    from the output, shuffled?
    """)
    return


@app.cell
def _(Tensor, nn, np):
    rng = np.random.default_rng(0)
    rows, places, order = rng.standard_normal((1, 6, 8)), rng.standard_normal((6, 8)), [3, 0, 5, 1, 4, 2]
    layer = nn.MultiHeadAttention(8, 2, generator=rng).double()

    def apart(run):
        return float(abs(run(rows[:, order]) - run(rows)[:, order]).max())

    equivariance = {
        "no positions, no mask": apart(lambda x: layer(Tensor(x)).array),
        "a causal mask": apart(lambda x: layer(Tensor(x), causal=True).array),
        "a vector added to each place": apart(lambda x: layer(Tensor(x + places)).array),
    }
    return (equivariance,)


@app.cell(hide_code=True)
def _(equivariance, mo):
    _rows = ["| with | apart by |", "| :-- | :-- |"]
    mo.md("\n".join(_rows + [f"| {name} | {gap:.1g} |" for name, gap in equivariance.items()]))
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    The first is rounding. A causal mask breaks the symmetry a little, since a word that sees two others must stand third, but
    it says no more than that. Something has to tell a position where it is. There are three places to put it: *add* it to the
    tokens, *add* it to the scores, or *turn* queries and keys.

    ## Added to the tokens: waves

    The paper of 2017 gives every position p a fixed row of numbers, in pairs. Pair i is the sine and the cosine of p divided
    by 10000^(2i/d): **sinusoidal positions**. It is a clock with many hands. The first hand turns fast and tells neighbours
    apart, the last one hardly moves and tells pages apart. All hands together never show the same time twice.
    """)
    return


@app.cell
def _(nn, np):
    def wave_row(p, d):
        angles = p / 10000.0 ** (np.arange(0, d, 2) / d)  # one angle for each pair
        return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(d)  # sine, cosine, sine, cosine …

    waves = np.stack([wave_row(p, 4) for p in range(4)])
    assert np.allclose(nn.SinusoidalPositions(4).map(4), waves, atol=1e-15)
    return wave_row, waves


@app.cell(hide_code=True)
def _(mo, waves):
    _f = lambda v: f"{v:.4f}".replace("-", "−")
    _rows = ["| position | sin p | cos p | sin p/100 | cos p/100 |", "| --- | --- | --- | --- | --- |"]
    mo.md("\n".join(_rows + [f"| {p} | " + " | ".join(map(_f, row)) + " |" for p, row in enumerate(waves)]))
    return


@app.cell(hide_code=True)
def _(controls, sinusoidal_map):
    map_settings = controls(sinusoidal_map)
    map_settings
    return (map_settings,)


@app.cell(hide_code=True)
def _(map_settings, sinusoidal_map):
    sinusoidal_map(**map_settings.value)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Why sine *and* cosine? Together they are the tip of a hand, a point on a circle, and going k positions on turns the hand
    by k times its speed, *wherever it was*. "Three words later" is one rotation of each pair, the same in the whole text. A
    linear map can express that, so a head can learn to look three words back. Sine alone would not do: from the height of a
    hand you cannot tell whether it is rising or falling.
    """)
    return


@app.cell
def _(np, wave_row):
    def turn(pair, angle):
        a, b = pair
        return np.array([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)])

    k, speed = 3, 1.0  # the first pair of any width turns by 1 radian a position
    later = [wave_row(p + k, 4)[:2] for p in range(300)]
    as_turned = [turn(wave_row(p, 4)[1::-1], k * speed)[::-1] for p in range(300)]  # cosine across, sine up
    assert np.allclose(later, as_turned)
    return as_turned, later, turn


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Added to the tokens: a learned row

    The simplest alternative is a second embedding table, with a row for each position that is trained like any other weight:
    **learned positions**, as in GPT-2 and BERT. It works as well as the waves, up to the last row of the table.

    **Broken on purpose:** ask a table of 1,024 rows for position 1,024, the first that it does not have.
    """)
    return


@app.cell
def _(nn, np):
    table = nn.LearnedPositions(1024, 4)
    table(np.array([1023]))  # the last row
    try:
        table(np.array([1024]))
        refused = ""
    except IndexError as error:
        refused = str(error)
    far = nn.SinusoidalPositions(4)(np.array([1_000_000])).shape  # waves go on for ever
    refused
    return far, refused


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    An honest error; a library that clamps or wraps the index would give the wrong row and say nothing. The waves have no last
    row, though a model that was trained on short texts has still never *seen* the hands of its clock stand that way.

    Adding happens once, before the first block. From then on the position is part of the stream. In the picture the sum of
    token and position is an ordinary sum: it has no branch that returns, so it is no skip.
    """)
    return


@app.cell
def _(Decoder, DecoderConfig, np, viz):
    config = DecoderConfig(vocab_size=10, block_size=4, n_layer=2, n_head=2, n_embd=8, init_std=0.5)
    model = Decoder(config, np.random.default_rng(0))
    viz.draw(model, inputs=np.array([[3, 7]]), view="blocks", legend=False, title="Two blocks, learned positions")
    return (model,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ### Two prefixes

    With the same model, follow one word through two sentences: *I like* and *They like*. The word and its position are the
    same, so the second row enters block 1 equal in both, and asks the same question there, the same query. What comes back
    differs, because the first word does. Its row is rewritten, and in block 2 the same word asks a *different* question.
    """)
    return


@app.cell
def _(model):
    def second_row(ids):
        """Of the stream going into each block, and the query that the block makes of it."""
        stream, found = model.token_embedding([ids]) + model.position_embedding([0, 1]), {}
        for i, block in enumerate(model.blocks):
            found[f"stream into block {i + 1}"] = stream.array[0, 1]
            found[f"query in block {i + 1}"] = block.attn.q_proj(block.attn_norm(stream)).array[0, 1]
            stream = block(stream, causal=True)
        return found

    i_like, they_like = second_row([3, 7]), second_row([5, 7])
    prefixes = {name: float(abs(i_like[name] - they_like[name]).max()) for name in i_like}
    return (prefixes,)


@app.cell(hide_code=True)
def _(mo, prefixes):
    _rows = ["| second row, “I like” against “They like” | apart by |", "| :-- | :-- |"]
    mo.md("\n".join(_rows + [f"| {name} | {gap:.3g} |" for name, gap in prefixes.items()]))
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Added to the scores

    What matters is usually how far apart two words are, not where they stand. So tell the head just that: add a number to
    each score that depends on the distance alone, a **relative position bias**. **ALiBi** subtracts the distance times a
    slope; each head has its own slope, so that some heads look near and some far. T5 learns the numbers, one for each head
    and bucket of distances: small distances have a bucket each, large ones share.
    """)
    return


@app.cell
def _(Tensor, nn, np):
    alibi = nn.ALiBi(4)
    bias = alibi.map(5)[0]  # the first head: minus the distance, times its slope
    by_distance = -abs(np.subtract.outer(np.arange(5), np.arange(5))) * alibi.slopes[0]
    assert np.allclose(bias, by_distance)

    weights = Tensor(bias[-1]).softmax(-1).array  # all words alike: only the bias speaks
    fall = weights[1:] / weights[:-1]
    buckets = nn.T5Bias(2, buckets=8, max_distance=16).bucket(np.arange(20))
    bias + 0.0
    return alibi, buckets, fall, weights


@app.cell(hide_code=True)
def _(alibi, buckets, fall, mo, weights):
    mo.md(f"""
    Slopes of four heads: {", ".join(f"{s:g}" for s in alibi.slopes)}. Where all words are alike, the first head's last
    position spreads its attention as {", ".join(f"{w:.3f}" for w in weights)}: each step nearer counts {fall[0]:.3f} times as
    much, e to the power of the slope. T5's buckets for the distances 0 to 19, with eight of them:
    {" ".join(map(str, buckets))}.

    ## Queries and keys, turned

    **Rotary positions** do it without adding anything. Turn the query by its position times an angle, turn the key by *its*
    position times the same angle, then take the product. Turning two arrows together changes neither their lengths nor the
    angle between them, so the product feels the *difference* of the two positions and nothing else. Take 30° a position, q =
    (1, 0), k = (2, 1).
    """)
    return


@app.cell
def _(np, turn):
    step = np.radians(30)
    q, key = np.array([1.0, 0.0]), np.array([2.0, 1.0])

    def score(at_query, at_key):
        return float(turn(q, at_query * step) @ turn(key, at_key * step))

    gap_1 = [score(n + 1, n) for n in (0, 1, 5, 100)]
    gap_2, gap_minus_1 = [score(2, 0), score(4, 2)], score(0, 1)
    assert np.allclose(gap_1, gap_1[0])
    return gap_1, gap_2, gap_minus_1, key, q, step


@app.cell(hide_code=True)
def _(gap_1, gap_2, gap_minus_1, key, mo, q):
    mo.md(f"""
    Unturned, the product is {q @ key:g}. With the query one position after the key, gap 1, it is {gap_1[0]:.3f} at the
    start of the text and {gap_1[3]:.3f} at position 100; gap 2 gives {gap_2[0]:.3f}, gap −1 gives {gap_minus_1:.3f}: order
    counts, not distance alone. Move query and key, then press play: both walk through the text together.
    """)
    return


@app.cell(hide_code=True)
def _(controls, rotary_arrows):
    arrow_settings = controls(rotary_arrows)
    arrow_settings
    return (arrow_settings,)


@app.cell(hide_code=True)
def _(arrow_settings, rotary_arrows, walk):
    walk(rotary_arrows, **arrow_settings.value)
    return


@app.cell(hide_code=True)
def _(mo, rotary_arrows):
    four = rotary_arrows(example="4°, q = k = (1, 0)", query=12, key=4).data["score"]
    mo.md(f"""
    In the other example both arrows are alike and turn by 4° a position: at positions 12 and 4 they are 32° apart, and the
    product is the cosine of that, {four:.2f}. With other contents it would be another number. Rotation decides how a score
    *changes* with the gap, and the words still decide what it is.

    A real head has more than two coordinates: 64, say, which are 32 pairs, each with a speed of its own, the ladder of the
    waves again: 10000^(−2i/D) radians a position for pair i. The rotation has no parameters, and the values are not turned:
    position decides *who is read*, not what is brought back. Which two coordinates make a pair is a convention, and there are
    two in use: neighbours (0, 1), (2, 3) …, called **interleaved**, or one from each half, (0, D/2), (1, D/2 + 1) …,
    **half-split**.
    """)
    return (four,)


@app.cell
def _(Tensor, nn, np, q, step, turn):
    rotary = nn.Rotary(2)
    rotary.speeds = np.array([step])
    assert np.allclose(rotary(Tensor(np.tile(q, (4, 1)))).array, [turn(q, p * step) for p in range(4)])

    halves, neighbours = nn.Rotary(8), nn.Rotary(8, interleaved=True)
    a, b = np.random.default_rng(1).standard_normal((2, 1, 8))

    def shifted(of_query, of_key):
        """By how much the score moves when query and key both move on by 5 positions."""
        at = lambda n: float((of_query(Tensor(a), n + 2) @ of_key(Tensor(b), n).T).item())
        return abs(at(5) - at(0))

    layouts = {
        "both half-split": shifted(halves, halves),
        "both interleaved": shifted(neighbours, neighbours),
        "one of each": shifted(halves, neighbours),
    }
    return halves, layouts


@app.cell(hide_code=True)
def _(layouts, mo):
    mo.md(f"""
    ### Broken on purpose: the layouts mixed

    Move query and key on by five positions. If both use halves, or both use neighbours, the score moves by less than
    {max(layouts["both half-split"], layouts["both interleaved"], 1e-15):.0e}, which is rounding. Turn the query in one layout
    and the key in the other, and it moves by {layouts["one of each"]:.2f}. Nothing fails; the promise that only the gap
    counts is gone. Weights that were trained with one layout and loaded into the other break in this silent way: look
    there first when a loaded model writes nonsense.
    """)
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
    return (again,)


@app.cell(hide_code=True)
def _(again, exercises):
    exercises(11, again)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **To carry on with:** attention sees a bag of words until positions are put in: added to the tokens, added to the scores,
    or as a turn of queries and keys. All parts of a block are now on the table. Next, all of them at once, on three words,
    with every number.
    """)
    return


@app.cell(hide_code=True)
def _(
    alibi,
    as_turned,
    buckets,
    equivariance,
    fall,
    far,
    four,
    gap_1,
    gap_2,
    gap_minus_1,
    halves,
    later,
    layouts,
    np,
    prefixes,
    refused,
    show,
    waves,
):
    numbers = {
        "S13 shuffled outputs are the outputs, shuffled": equivariance["no positions, no mask"] < 1e-12,
        "S13 not so with a causal mask": equivariance["a causal mask"] > 1e-3,
        "S13 not so with positions": equivariance["a vector added to each place"] > 1e-3,
        "S14 second row into block 1, apart by": prefixes["stream into block 1"],
        "S14 its query in block 1, apart by": prefixes["query in block 1"],
        "S14 second row into block 2 differs": prefixes["stream into block 2"] > 1e-3,
        "S14 its query in block 2 differs": prefixes["query in block 2"] > 1e-3,
        "S20 positions 0 to 3, width 4": waves,
        "S20 a shift is one rotation": bool(np.allclose(later, as_turned)),
        "S21 position 1024 of 1024 rows": refused,
        "S21 waves at position 1,000,000": list(far),
        "S22 ALiBi slopes of four heads": alibi.slopes,
        "S22 ALiBi: a step nearer counts": fall,
        "S22 T5 buckets of distances 0 to 19": buckets,
        "S23 gap 1 at keys 0, 1, 5, 100": gap_1,
        "S23 gap 2 at keys 0, 2": gap_2,
        "S23 gap -1": gap_minus_1,
        "S23 4 degrees a position, 12 and 4": four,
        "S23 speeds of the pairs, width 8": halves.speeds,
        "S23 both layouts keep the score": max(layouts["both half-split"], layouts["both interleaved"]) < 1e-12,
        "S23 mixed layouts do not": layouts["one of each"] > 0.01,
        "S23 parameters": sum(p.numel() for p in halves.parameters()),
    }
    show(numbers)
    return


@app.cell(hide_code=True)
def _(links):
    links(11)
    return


if __name__ == "__main__":
    app.run()
