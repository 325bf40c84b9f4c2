"""Small programs of courses on other things than transformers: the same losses and gradients as with PyTorch, step by step."""

import math

import numpy as np


def started(model, m):
    """The same numbers in every parameter, whatever the module."""
    for i, p in enumerate(model.parameters()):
        draw = np.random.default_rng([i, *p.shape]).standard_normal(tuple(p.shape)) * 0.3
        p.data.copy_(m.tensor((draw + (p.dim() == 1)).astype(np.float32)))
    return model


def trained(m, model, optimizer, schedule, loss, steps=10):
    """The losses and the rates of some steps, then every gradient and parameter."""
    found = []
    for step in range(steps):
        optimizer.zero_grad()
        value = loss(step)
        value.backward()
        m.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        found += [value.item(), schedule.get_last_lr()[0]]
    return found + [p.grad * 1 for p in model.parameters()] + [p.detach() for p in model.parameters()]


def test_a_reader_of_packed_texts_and_a_writer_with_attention(agree):
    """An encoder that packs its texts, a decoder that writes cell by cell and looks back at what was read."""
    rng = np.random.default_rng(0)
    lengths = np.array([3, 6, 1, 4])
    source, target = rng.integers(1, 9, (4, 6)), rng.integers(1, 7, (4, 5))

    def f(m):
        nn, F = m.nn, m.nn.functional

        class Translator(nn.Module):
            def __init__(self):
                super().__init__()
                self.read, self.write = nn.Embedding(9, 5, padding_idx=0), nn.Embedding(7, 5)
                self.encoder = nn.GRU(5, 6, bidirectional=True, batch_first=True)
                self.bridge, self.cell = nn.Linear(12, 8), nn.LSTMCell(5 + 12, 8)
                self.query, self.out = nn.Linear(8, 12, bias=False), nn.Linear(8, 7)

            def forward(self, ids, counts, wanted):
                packed = nn.utils.rnn.pack_padded_sequence(self.read(ids), counts, batch_first=True, enforce_sorted=False)
                packed, last = self.encoder(packed)
                seen, counts = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
                h = m.tanh(self.bridge(m.cat([last[-2], last[-1]], dim=1)))
                c, mask, logits = m.zeros_like(h), m.arange(seen.size(1))[None] < counts[:, None], []
                for t in range(wanted.size(1) - 1):
                    scores = m.bmm(seen, self.query(h).unsqueeze(2)).squeeze(2).masked_fill(~mask, -1e9)
                    looked = m.bmm(F.softmax(scores, dim=1).unsqueeze(1), seen).squeeze(1)
                    h, c = self.cell(m.cat([self.write(wanted[:, t]), looked], dim=-1), (h, c))
                    logits.append(self.out(h))
                return F.cross_entropy(m.stack(logits, 1).reshape(-1, 7), wanted[:, 1:].reshape(-1))

        model = started(Translator(), m)
        optimizer = m.optim.RAdam(model.parameters(), lr=0.05)
        schedule = m.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
        ids, counts, wanted = m.from_numpy(source), m.from_numpy(lengths), m.from_numpy(target)
        return trained(m, model, optimizer, schedule, lambda step: model(ids, counts, wanted))

    agree(f, rtol=2e-3, atol=2e-4)


def test_words_by_their_neighbours(agree):
    """Skip-gram with negative sampling: logsigmoid of scores; then the most similar words."""
    rng = np.random.default_rng(1)
    centers, near, far = rng.integers(0, 12, (10, 16)), rng.integers(0, 12, (10, 16)), rng.integers(0, 12, (10, 16, 5))

    def f(m):
        F = m.nn.functional

        class SkipGram(m.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.outer = m.nn.Embedding(12, 6), m.nn.Embedding(12, 6)

            def forward(self, center, context, others):
                v = self.inner(center)
                good = F.logsigmoid((v * self.outer(context)).sum(1))
                bad = F.logsigmoid(-m.bmm(self.outer(others), v.unsqueeze(2)).squeeze(2)).sum(1)
                return -(good + bad).mean()

        model = started(SkipGram(), m)
        optimizer = m.optim.Adagrad(model.parameters(), lr=0.1)
        schedule = m.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.2, total_iters=4)
        data = [[m.from_numpy(x[i].copy()) for x in (centers, near, far)] for i in range(10)]
        found = trained(m, model, optimizer, schedule, lambda step: model(*data[step]))
        table = model.inner.weight.detach()
        similar = F.cosine_similarity(table[3].unsqueeze(0), table)
        return [*found, similar, similar.topk(4).indices, m.bincount(data[0][0], minlength=12)]

    agree(f, rtol=2e-3, atol=2e-4)


def test_a_transformer_of_picture_patches(agree):
    """Patches by a convolution, a class token, an encoder; AdamW with warmup and then a cosine."""
    rng = np.random.default_rng(2)
    pictures, classes = rng.standard_normal((6, 3, 8, 8)).astype(np.float32), rng.integers(0, 4, 6)

    def f(m):
        nn = m.nn

        class Patches(nn.Module):
            def __init__(self):
                super().__init__()
                self.cut = nn.Conv2d(3, 8, kernel_size=4, stride=4)
                self.token = nn.Parameter(m.zeros(1, 1, 8))
                self.place = nn.Parameter(m.zeros(1, 5, 8))
                layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu", batch_first=True)
                self.body = nn.TransformerEncoder(layer, 1)
                self.head = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 4))

            def forward(self, x):
                x = self.cut(x).flatten(2).transpose(1, 2)
                x = m.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.place
                return self.head(self.body(x)[:, 0])

        model = started(Patches(), m)
        optimizer = m.optim.AdamW(model.parameters(), lr=0.02, eps=1e-3)  # keys' biases have no gradient but rounding
        parts = [m.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=3),
                 m.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=7)]  # fmt: skip
        schedule = m.optim.lr_scheduler.SequentialLR(optimizer, parts, milestones=[3])
        x, y = m.from_numpy(pictures), m.from_numpy(classes)
        return trained(m, model, optimizer, schedule, lambda step: nn.CrossEntropyLoss()(model(x), y))

    agree(f, rtol=5e-3, atol=5e-4)


def test_a_convolutional_network(agree):
    """Convolution, batch norm, pools and a leaky ReLU on pictures; then a convolutional reader of texts."""
    rng = np.random.default_rng(3)
    pictures, classes = rng.standard_normal((5, 1, 12, 12)).astype(np.float32), rng.integers(0, 3, 5)
    ids, labels = rng.integers(0, 9, (5, 7)), rng.random((5, 1)).round().astype(np.float32)

    def f(m):
        nn, F = m.nn, m.nn.functional
        eyes = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.LeakyReLU(0.1), nn.MaxPool2d(2),
                             nn.Conv2d(4, 6, 3), nn.GroupNorm(2, 6), nn.ELU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
                             nn.Linear(24, 3))  # fmt: skip

        class Reader(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(9, 5)
                self.filters = nn.ModuleList([nn.Conv1d(5, 3, k) for k in (2, 3)])
                self.out = nn.Linear(6, 1)

            def forward(self, ids):
                x = self.table(ids).permute(0, 2, 1)
                seen = [F.relu(reads(x)) for reads in self.filters]
                return self.out(m.cat([F.max_pool1d(y, y.shape[2]).squeeze(2) for y in seen], dim=1))

        found = []
        for model, x, loss in (
            (eyes, m.from_numpy(pictures), lambda y: F.cross_entropy(y, m.from_numpy(classes), label_smoothing=0.1)),
            (Reader(), m.from_numpy(ids), lambda y: nn.BCEWithLogitsLoss()(y, m.from_numpy(labels))),
        ):
            model = started(model, m)
            optimizer = m.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            schedule = m.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[3, 6], gamma=0.5)
            found += trained(m, model, optimizer, schedule, lambda step, model=model, x=x, loss=loss: loss(model(x)))
            found.append(model.eval()(x))
        return found

    agree(f, rtol=5e-3, atol=5e-4)


def test_noise_that_is_taken_away_again(agree):
    """A diffusion model on points: the schedule by cumprod, Huber's loss, GELU written with erf."""
    rng = np.random.default_rng(4)
    points, steps, noise = (rng.standard_normal((10, 8, 2)), rng.integers(0, 20, (10, 8)), rng.standard_normal((10, 8, 2)))

    def f(m):
        kept = m.cumprod(1 - m.linspace(1e-3, 0.2, 20), dim=0)

        class Gelu(m.nn.Module):
            def forward(self, x):
                return x * 0.5 * (1.0 + m.erf(x / math.sqrt(2.0)))

        model = started(m.nn.Sequential(m.nn.Linear(3, 16), Gelu(), m.nn.Linear(16, 16), m.nn.Mish(), m.nn.Linear(16, 2)), m)
        optimizer = m.optim.Adamax(model.parameters(), lr=0.02)
        schedule = m.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=3, T_mult=2)

        def loss(i):
            x, t, e = m.from_numpy(points[i]).float(), m.from_numpy(steps[i]), m.from_numpy(noise[i]).float()
            a = kept[t].unsqueeze(-1)
            noisy = a.sqrt() * x + (1 - a).sqrt() * e
            return m.nn.functional.huber_loss(model(m.cat([noisy, t.unsqueeze(-1) / 20], -1)), e)

        return trained(m, model, optimizer, schedule, loss)

    agree(f, rtol=2e-3, atol=2e-4)


def test_preferences_and_triplets(agree):
    """What is preferred over what: DPO's loss from log-probabilities, a ranking of scores, texts in threes as bags of words."""
    rng = np.random.default_rng(5)
    good, bad, threes = rng.integers(0, 9, (4, 6)), rng.integers(0, 9, (4, 6)), rng.integers(0, 9, (3, 4, 6))

    def f(m):
        nn, F = m.nn, m.nn.functional

        class Scorer(nn.Module):
            def __init__(self):
                super().__init__()
                self.words = nn.EmbeddingBag(9, 6, mode="mean")
                self.tables = nn.ParameterDict({"out": m.zeros(6, 9), "shift": m.zeros(9)})
                self.gate = nn.Linear(6, 12)

            def forward(self, ids):
                return F.glu(self.gate(self.words(ids)))

            def logp(self, ids):
                logits = F.prelu(self(ids), m.tensor([0.25])) @ self.tables["out"] + self.tables["shift"]
                return logits.log_softmax(-1).gather(1, ids).sum(-1)

        model = started(Scorer(), m)
        optimizer = m.optim.Adadelta(model.parameters())
        schedule = m.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=10, power=0.9)
        yes, no, (a, p, n) = m.from_numpy(good), m.from_numpy(bad), (m.from_numpy(x.copy()) for x in threes)

        def loss(step):
            win, lose = model.logp(yes), model.logp(no)
            preferred = -F.logsigmoid(0.5 * (win - lose)).mean()
            ranked = nn.MarginRankingLoss(margin=0.5)(win, lose, m.ones(4))
            apart = nn.TripletMarginLoss()(model(a), model(p), model(n))
            turned = nn.CosineEmbeddingLoss(margin=0.1)(model(a), model(n), m.tensor([1.0, -1, 1, -1]))
            return preferred + 0.1 * ranked + apart + turned + 0.01 * F.smooth_l1_loss(win, lose.detach())

        return trained(m, model, optimizer, schedule, loss)

    agree(f, rtol=5e-3, atol=5e-4)
