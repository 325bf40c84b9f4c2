"""torch.nn.functional and clipping, against PyTorch; and the modules of the same functions:

nn.LeakyReLU nn.PReLU nn.ELU nn.SELU nn.Hardtanh nn.ReLU6 nn.LogSigmoid nn.Softsign nn.Mish nn.GLU nn.L1Loss nn.SmoothL1Loss
nn.HuberLoss nn.MSELoss nn.MarginRankingLoss nn.PairwiseDistance nn.TripletMarginLoss nn.CosineEmbeddingLoss
"""

import numpy as np
import pytest

TABLE = {
    "vectors": {
        "F.softmax": lambda m, x: [
            m.nn.functional.softmax(x, dim=-1),
            m.nn.functional.softmax(x, 0),
            m.nn.functional.softmax(x, dim=0, dtype=m.float64),
        ],
        "F.log_softmax": lambda m, x: [m.nn.functional.log_softmax(x, dim=-1), m.nn.functional.log_softmax(x, 0)],
        "F.layer_norm": lambda m, x: [
            m.nn.functional.layer_norm(x, x.shape[-1:]),
            m.nn.functional.layer_norm(x, tuple(x.shape), eps=1e-3),
        ],
        "F.linear": lambda m, x: [
            m.nn.functional.linear(x, m.ones(2, x.shape[-1], dtype=x.dtype)),
            m.nn.functional.linear(x, m.ones(3, x.shape[-1], dtype=x.dtype), m.ones(3, dtype=x.dtype)),
        ],
        "F.pad": lambda m, x: [
            m.nn.functional.pad(x, (1, 2)),
            m.nn.functional.pad(x, (1, 0), value=-1.5),
            m.nn.functional.pad(x, (0, 1), "constant", 2.0),
            m.nn.functional.pad(x, (-1, 1)),
            m.nn.functional.pad(x, (1,)),
            m.nn.functional.pad(x, (1, 1, 2, 0)),
        ],
        "F.normalize": lambda m, x: m.nn.functional.normalize(x, dim=-1),
    },
    "floats special": {
        "F.silu": lambda m, x: m.nn.functional.silu(m.where(x.isfinite(), x, 0.5).clamp(-1e4, 1e4)),
        "F.sigmoid": lambda m, x: m.nn.functional.sigmoid(x),
        "F.tanh": lambda m, x: m.nn.functional.tanh(x),
        "F.softplus": lambda m, x: [
            m.nn.functional.softplus(m.where(x.isfinite(), x, 0.5), beta=2.0),
            m.nn.functional.softplus(x * 0),
        ],
        "F.gelu": lambda m, x: [
            m.nn.functional.gelu(m.where(x.isfinite(), x, 0.5).clamp(-9, 9)),
            m.nn.functional.gelu(m.where(x.isfinite(), x, 0.5).clamp(-9, 9), approximate="tanh"),
        ],
    },
    "floats": {
        "F.leaky_relu": lambda m, x: [
            m.nn.functional.leaky_relu(x),
            m.nn.functional.leaky_relu(x, negative_slope=0.5),
            m.nn.functional.leaky_relu(x * 1, 0.1, inplace=True),
            m.nn.LeakyReLU(0.3)(x),
        ],
        "F.prelu": lambda m, x: [
            m.nn.functional.prelu(x, m.tensor([0.2], dtype=x.dtype)),
            m.nn.functional.prelu(x.flatten()[:, None], x.flatten()[:1]) if x.numel() else 0,
            m.nn.functional.prelu(x, m.arange(x.shape[1]).to(x.dtype)) if x.dim() > 1 and x.numel() else 0,
            m.nn.PReLU(init=0.1)(x.float()),
        ],
        "F.elu": lambda m, x: [
            m.nn.functional.elu(x),
            m.nn.functional.elu(x * 20, alpha=0.5),
            m.nn.functional.elu(x * 1, inplace=True),
            m.nn.ELU(2.0)(x),
        ],
        "F.selu": lambda m, x: [m.nn.functional.selu(x), m.nn.functional.selu(x * 9, inplace=True), m.nn.SELU()(x)],
        "F.hardtanh": lambda m, x: [
            m.nn.functional.hardtanh(x),
            m.nn.functional.hardtanh(x * 2, min_val=-0.5, max_val=3.0),
            m.nn.functional.hardtanh(x * 3, inplace=True),
            m.nn.Hardtanh(-2, 0.25)(x),
        ],
        "F.relu6": lambda m, x: [m.nn.functional.relu6(x * 6), m.nn.functional.relu6(x * 1, inplace=True), m.nn.ReLU6()(x)],
        "F.logsigmoid": lambda m, x: [m.nn.functional.logsigmoid(x * 100), m.nn.LogSigmoid()(x)],
        "F.softsign": lambda m, x: [m.nn.functional.softsign(x), m.nn.Softsign()(x * 5)],
        "F.mish": lambda m, x: [
            m.nn.functional.mish(x),
            m.nn.functional.mish(x * 30, inplace=True),
            m.nn.Mish()(x - 1),
        ],
        "F.glu": lambda m, x: [
            m.nn.functional.glu(m.stack([x, x * 2], -1)),
            m.nn.functional.glu(m.stack([x, x, x * 3, x - 1], 0), dim=0),
            m.nn.GLU(dim=0)(m.stack([x, x])),
        ],
        "F.smooth_l1_loss": lambda m, x: [
            m.nn.functional.smooth_l1_loss(x, x.detach() * 3 - 1),
            m.nn.functional.smooth_l1_loss(x, x * 0, reduction="none", beta=0.5),
            m.nn.functional.smooth_l1_loss(x, x * 2, beta=0.0, reduction="sum"),
            m.nn.SmoothL1Loss(reduction="sum", beta=2.0)(x, m.ones_like(x)),
        ],
        "F.huber_loss": lambda m, x: [
            m.nn.functional.huber_loss(x, x.detach() * 3 - 1),
            m.nn.functional.huber_loss(x, x * 0, reduction="none", delta=0.5),
            m.nn.HuberLoss(reduction="sum", delta=2.0)(x * 9, m.ones_like(x)),
        ],
        "F.l1_loss": lambda m, x: [
            m.nn.functional.l1_loss(x, x.detach() * 3 - 1),
            m.nn.functional.l1_loss(x, x * 0, reduction="none"),
            m.nn.L1Loss(reduction="sum")(x, m.ones_like(x)),
            m.nn.functional.l1_loss(x, m.ones(1, dtype=x.dtype)),
        ],
        "F.mse_loss": lambda m, x: [
            m.nn.functional.mse_loss(x, x.detach() * 3 - 1),
            m.nn.functional.mse_loss(x, x * 0, reduction="none"),
            m.nn.MSELoss(reduction="sum")(x, m.ones_like(x)),
        ],
        "F.margin_ranking_loss": lambda m, x: [
            m.nn.functional.margin_ranking_loss(x, x * 2, m.ones_like(x)),
            m.nn.functional.margin_ranking_loss(x, x * x, -m.ones_like(x), margin=0.3, reduction="none"),
            m.nn.MarginRankingLoss(margin=0.5, reduction="sum")(x, 1 - x, m.sign(x.detach())),
        ],
        "F.pairwise_distance": lambda m, x: (
            [
                m.nn.functional.pairwise_distance(x, x * 2),
                m.nn.functional.pairwise_distance(x, x - 1, p=1.0, keepdim=True),
                m.nn.PairwiseDistance(p=2, eps=0.1)(x, x[..., :1]),
            ]
            if x.dim() and x.shape[-1]
            else []
        ),
        "F.triplet_margin_loss": lambda m, x: (
            [
                m.nn.functional.triplet_margin_loss(x, x * 2, 1 - x),
                m.nn.functional.triplet_margin_loss(x, x * x, 2 * x, margin=0.5, p=1, swap=True, reduction="none"),
                m.nn.TripletMarginLoss(margin=2.0, reduction="sum")(x, x + 1, x * x),
            ]
            if x.dim() > 1 and x.numel()
            else []
        ),
        "F.cosine_embedding_loss": lambda m, x: (
            [
                m.nn.functional.cosine_embedding_loss(x, x * x, m.ones(len(x))),
                m.nn.functional.cosine_embedding_loss(x, x + 1, -m.ones(len(x)), margin=0.2, reduction="none"),
                m.nn.CosineEmbeddingLoss(margin=-0.5, reduction="sum")(x, x - 1, m.sign(x.detach()[:, 0] + 0.1)),
                m.nn.functional.cosine_embedding_loss(x[0], x[-1] + 1, m.tensor(-1)),
            ]
            if x.dim() == 2 and x.numel()
            else []
        ),
        "F.relu": lambda m, x: [m.nn.functional.relu(x), m.nn.functional.relu(x * 1, inplace=True)],
        "F.dropout": lambda m, x: [
            m.nn.functional.dropout(x, 0.0),
            m.nn.functional.dropout(x, p=0.9, training=False),
            m.nn.functional.dropout(x, 1.0),
            m.nn.functional.dropout(x * 2, 1.0, True, inplace=True),
        ],
    },
}
TABLE["floats special"] = {
    name: (f if name not in ("F.sigmoid", "F.tanh", "F.softplus") else (lambda m, x, f=f: f(m, m.where(x == x, x, 0.0))))
    for name, f in TABLE["floats special"].items()
}
CASES = [(family, name) for family, names in TABLE.items() for name in names]


@pytest.mark.parametrize("family,name", CASES, ids=[name for _, name in CASES])
def test_same_as_torch(walk, family, name):
    walk(TABLE[family][name], family, rtol=1e-4, atol=1e-5)


def random(*shape, salt=0):
    return np.random.default_rng([salt, *shape]).standard_normal(shape).astype(np.float32)


LOGITS = [(1, 2), (3, 4), (2, 5), (4, 1), (6, 3), (2, 3, 4), (1, 2, 2), (2, 4, 3, 2), (5, 7), (3, 2, 1)]
LOSSES = {
    "F.cross_entropy": lambda m, x, t: [
        m.nn.functional.cross_entropy(x, t),
        m.nn.functional.cross_entropy(x, t, reduction="none"),
        m.nn.functional.cross_entropy(input=x, target=t, reduction="sum"),
        m.nn.functional.cross_entropy(x, t, label_smoothing=0.1),
        m.nn.functional.cross_entropy(x, t.where(t > 0, -1), ignore_index=-1, reduction="sum"),
        m.nn.functional.cross_entropy(x, t, weight=m.arange(1.0, x.shape[1] + 1)),
        m.nn.functional.cross_entropy(x, t.where(t > 0, -1), ignore_index=-1) if (t > 0).any() else x,
    ],
    "F.nll_loss": lambda m, x, t: [
        m.nn.functional.nll_loss(x.log_softmax(1), t),
        m.nn.functional.nll_loss(x.log_softmax(1), t, reduction="none"),
        m.nn.functional.nll_loss(x.log_softmax(1), t.where(t > 0, -1), ignore_index=-1, reduction="sum"),
    ],
    "F.one_hot": lambda m, x, t: [m.nn.functional.one_hot(t), m.nn.functional.one_hot(t, num_classes=x.shape[1] + 1)],
    "F.embedding": lambda m, x, t: m.nn.functional.embedding(t, m.ones(x.shape[1], 3), padding_idx=0),
    "CrossEntropyLoss": lambda m, x, t: [
        m.nn.CrossEntropyLoss()(x, t),
        m.nn.CrossEntropyLoss(ignore_index=0, reduction="sum")(x, t),
        m.nn.CrossEntropyLoss(label_smoothing=0.2)(x, t),
        m.nn.NLLLoss(reduction="sum")(x.log_softmax(1), t),
    ],
    "KLDivLoss": lambda m, x, t: [
        m.nn.KLDivLoss(reduction="sum")(x.log_softmax(1), x.detach().softmax(1)),
        m.nn.KLDivLoss(reduction="batchmean")(x.log_softmax(1), x.detach().flip(1).softmax(1)),
    ],
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(agree, name):
    for shape in LOGITS:
        target = np.random.default_rng(shape).integers(0, shape[1], (shape[0], *shape[2:]))
        agree(LOSSES[name], random(*shape), target, rtol=1e-4, atol=1e-5)


ATTENTION = [
    (1, 1, 1, 1, 2),
    (2, 3, 4, 4, 5),
    (1, 2, 3, 5, 4),
    (2, 1, 1, 6, 3),
    (1, 4, 7, 7, 2),
    (3, 2, 2, 2, 8),
    (1, 1, 5, 5, 1),
    (2, 2, 6, 3, 4),
    (1, 3, 8, 8, 4),
    (2, 2, 2, 9, 2),
]


def test_attention(agree):
    """F.scaled_dot_product_attention"""

    def f(m, q, k, v, allowed, bias):
        attend = m.nn.functional.scaled_dot_product_attention
        return [
            attend(q, k, v),
            attend(q, k, v, attn_mask=allowed),
            attend(q, k, v, attn_mask=bias),
            attend(q, k, v, is_causal=True),
            attend(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=True, scale=0.3),
            attend(q[0], k[0], v[0]),
        ]

    for b, h, t, s, d in ATTENTION:
        allowed = np.random.default_rng(t).random((t, s)) > 0.3
        allowed[:, 0] = True
        arrays = random(b, h, t, d), random(b, h, s, d, salt=1), random(b, h, s, d, salt=2), allowed, random(t, s, salt=3)
        agree(f, *arrays, rtol=1e-4, atol=1e-5)


def test_clipping(agree):
    """nn.utils.clip_grad_norm_"""
    for i, most in enumerate([0.1, 1, 5.0, 1e9, 0.5, 2, 3, 1e-3, 0.7, 10]):

        def f(m, a, b, most):
            (a * a).sum().backward()
            length = m.nn.utils.clip_grad_norm_([a, b], max_norm=most)
            return [length, a.grad.clone(), m.nn.utils.clip_grad_norm_(a, 0.05)]

        agree(f, random(i + 1, 2), random(3), most)


@pytest.mark.parametrize(
    "f",
    [
        lambda m: m.nn.functional.cross_entropy(m.ones(2, 3), m.tensor([0, 3])),
        lambda m: m.nn.functional.cross_entropy(m.ones(2, 3), m.tensor([0])),
        lambda m: m.nn.functional.cross_entropy(m.ones(2, 3), m.tensor([0, 1]), reduction="all"),
        lambda m: m.nn.functional.linear(m.ones(2), m.ones(3, 4)),
        lambda m: m.nn.functional.layer_norm(m.ones(2, 3), (2,)),
        lambda m: m.nn.functional.dropout(m.ones(2), 1.5),
        lambda m: m.nn.functional.embedding(m.tensor([5]), m.ones(3, 2)),
        lambda m: m.nn.functional.embedding(m.tensor([0.5]), m.ones(3, 2)),
        lambda m: m.nn.functional.one_hot(m.tensor([-1])),
        lambda m: m.nn.functional.gelu(m.ones(2), approximate="sin"),
        lambda m: m.nn.Embedding(3, 2, padding_idx=3),
        lambda m: m.nn.Linear(2, 3)(m.ones(3)),
        lambda m: m.nn.Dropout(-1.0),
        lambda m: m.nn.Linear(2, 3, device="cuda"),
        lambda m: m.nn.init.xavier_uniform_(m.ones(3)),
        lambda m: m.nn.functional.scaled_dot_product_attention(m.ones(1, 1, 2, 3), m.ones(1, 1, 2, 4), m.ones(1, 1, 2, 3)),
    ],
)
def test_errors_where_pytorch_has_them(oracle, f):
    import tinygrad_tf.torch as ours

    for module in (oracle, ours):
        with pytest.raises(Exception):  # noqa: B017, PT011  each module has its own kinds
            f(module)
