"""Three small projects as a user of PyTorch writes them, data to saved model: the same losses here and there.

A classifier of padded texts, a variational autoencoder that stops early, and a translator with teacher forcing.
"""

import copy
import io
import math

import numpy as np
import pytest

import tinygrad_tf.torch as ours

PAD, BOS, EOS = 0, 1, 2


def started(model, m, scale):
    """Matrices from NumPy, norms at one, everything else at zero."""
    rng = np.random.default_rng(0)
    with m.no_grad():
        for name, p in model.named_parameters():
            if p.dim() > 1:
                p.copy_(m.from_numpy((rng.standard_normal(tuple(p.shape)) * scale).astype(np.float32)))
            elif "norm" not in name:
                m.nn.init.zeros_(p)
    return model


def test_a_classifier_of_padded_texts(agree):
    def f(m):
        nn, data = m.nn, m.utils.data

        class Texts(data.Dataset):
            def __init__(self, count):
                rng = np.random.default_rng(0)
                texts = [rng.integers(2, 20, rng.integers(3, 12)) for _ in range(count)]
                self.items = [(m.tensor(ids), int((ids > 10).mean() > 0.5)) for ids in texts]

            def __len__(self):
                return len(self.items)

            def __getitem__(self, i):
                return self.items[i]

        def collate(batch):
            texts, labels = zip(*batch)
            padded = nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=PAD)
            return padded, m.tensor(labels), m.tensor([len(ids) for ids in texts])

        class Classifier(nn.Module):
            def __init__(self, d=16):
                super().__init__()
                self.embed = nn.Embedding(20, d, padding_idx=PAD)
                position = m.arange(32).unsqueeze(1)
                angles = position * m.exp(m.arange(0, d, 2) * (-math.log(10000.0) / d))
                pe = m.zeros(1, 32, d)
                pe[0, :, 0::2], pe[0, :, 1::2] = m.sin(angles), m.cos(angles)
                self.register_buffer("pe", pe)
                layer = nn.TransformerEncoderLayer(d, 4, 32, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
                self.encoder = nn.TransformerEncoder(layer, num_layers=2, norm=nn.LayerNorm(d), enable_nested_tensor=False)
                self.head = nn.Sequential(nn.Linear(d, d), nn.Tanh(), nn.Linear(d, 2))

            def forward(self, ids, lengths):
                padding = m.arange(ids.size(1), device=ids.device)[None, :] >= lengths[:, None]
                h = self.encoder(self.embed(ids) * 4.0 + self.pe[:, : ids.size(1)], src_key_padding_mask=padding)
                return self.head(h.masked_fill(padding.unsqueeze(-1), 0.0).sum(dim=1) / lengths.unsqueeze(1).float())

        texts = Texts(40)
        loader = data.DataLoader(data.Subset(texts, range(32)), batch_size=8, shuffle=False, collate_fn=collate)
        model = started(Classifier(), m, 0.15)
        criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
        optimizer = m.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
        scheduler = m.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4, eta_min=1e-5)
        out, best, kept = [], float("inf"), None
        for _ in range(4):
            model.train()
            for ids, labels, lengths in loader:
                optimizer.zero_grad()
                loss = criterion(model(ids, lengths), labels)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                out.append(loss.item())
            scheduler.step()
            model.eval()
            with m.no_grad():
                ids, labels, lengths = collate([texts[i] for i in range(32, 40)])
                logits = model(ids, lengths)
                loss = criterion(logits, labels)
            if loss < best:
                best, kept = loss, copy.deepcopy(model.state_dict())
            out += [loss.item(), (logits.argmax(-1) == labels).sum().item(), scheduler.get_last_lr()[0]]
        model.load_state_dict(kept)
        return [out, model(ids, lengths).detach()]

    agree(f, rtol=2e-3, atol=2e-4)


def test_a_variational_autoencoder_that_stops_early(agree):
    def f(m):
        nn, F = m.nn, m.nn.functional
        rng, noise = np.random.default_rng(1), np.random.default_rng(2)
        centers = rng.random((4, 20))
        x = m.from_numpy((rng.random((40, 20)) < centers[rng.integers(0, 4, 40)]).astype("float32"))

        class VAE(nn.Module):
            def __init__(self):
                super().__init__()
                self.encoder = nn.Sequential(nn.Linear(20, 16), nn.ReLU(inplace=True), nn.BatchNorm1d(16))
                self.mu, self.logvar = nn.Linear(16, 3), nn.Linear(16, 3)
                self.decoder = nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.Linear(16, 20), nn.Sigmoid())
                self.register_buffer("mean", m.zeros(20))
                self.register_buffer("steps", m.tensor(0))

            def forward(self, x):
                if self.training:
                    self.mean.mul_(0.9).add_(0.1 * x.mean(0))
                    self.steps += 1
                h = self.encoder(x - self.mean)
                mu, logvar = self.mu(h), self.logvar(h).clamp(min=-6, max=6)
                std = m.exp(0.5 * logvar)
                eps = m.tensor(noise.standard_normal(tuple(std.shape)), dtype=std.dtype) if self.training else m.zeros_like(std)
                return self.decoder(mu + eps * std), mu, logvar

        def loss_of(model, x):
            made, mu, logvar = model(x)
            kl = -0.5 * m.sum(1 + logvar - mu.pow(2) - logvar.exp())
            return (F.binary_cross_entropy(made, x, reduction="sum") + kl) / len(x)

        model, file = started(VAE(), m, 0.1), io.BytesIO()
        optimizer = m.optim.Adam(model.parameters(), lr=3e-2)
        plateau = m.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=1)
        loader = m.utils.data.DataLoader(m.utils.data.TensorDataset(x[:28]), batch_size=8, drop_last=True)
        out, best, waited = [], m.inf, 0
        for epoch in range(20):
            model.train()
            for (batch,) in loader:
                optimizer.zero_grad(set_to_none=True)
                loss = loss_of(model, batch)
                loss.backward()
                optimizer.step()
                out.append(loss.item())
            model.eval()
            with m.no_grad():
                loss = loss_of(model, x[28:])
            plateau.step(loss)
            out += [loss.item(), optimizer.param_groups[0]["lr"]]
            if loss < best - 0.05:
                best, waited = loss, 0
                file.seek(0)
                m.save({"model": model.state_dict(), "epoch": epoch, "loss": loss}, file)
            else:
                waited += 1
                if waited == 2:
                    break
        assert epoch < 19, "it did not stop early"
        file.seek(0)
        kept, other = m.load(file, map_location="cpu", weights_only=True), VAE()
        other.load_state_dict(kept["model"])
        other.eval()
        with m.no_grad():
            assert abs(loss_of(other, x[28:]).item() - kept["loss"].item()) < 1e-5
        return [out, epoch, kept["epoch"], other.steps.item(), other.mean * 1]

    agree(f, rtol=2e-3, atol=2e-4)


def test_a_translator_with_teacher_forcing(agree):
    def f(m):
        nn, rng = m.nn, np.random.default_rng(3)

        def batch(count):
            src, tgt = m.full((count, 6), PAD, dtype=m.long), m.full((count, 8), PAD, dtype=m.long)
            for i in range(count):
                n = int(rng.integers(2, 7))
                ids = m.as_tensor(rng.integers(3, 9, n))
                src[i, :n] = ids
                tgt[i, 0], tgt[i, 1 : n + 1], tgt[i, n + 1] = BOS, ids.flip(0), EOS
            return src, tgt

        class Translator(nn.Module):
            def __init__(self, d=16):
                super().__init__()
                self.source, self.target = nn.Embedding(9, d), nn.Embedding(9, d)
                self.places = nn.Parameter(m.zeros(8, d))
                self.body = nn.Transformer(d, 4, 1, 2, dim_feedforward=32, dropout=0.0, batch_first=True)
                self.head = nn.Linear(d, 9)

            def forward(self, src, tgt):
                padding, later = src == PAD, nn.Transformer.generate_square_subsequent_mask(tgt.size(1))
                unread = (tgt == PAD).float().masked_fill(tgt == PAD, float("-inf"))
                out = self.body(
                    self.source(src) * 4.0 + self.places[: src.size(1)],
                    self.target(tgt) * 4.0 + self.places[None, : tgt.size(1)],
                    tgt_mask=later,
                    src_key_padding_mask=padding,
                    tgt_key_padding_mask=unread,
                    memory_key_padding_mask=padding.float().masked_fill(padding, float("-inf")),
                )
                return self.head(out)

            def read(self, src):
                return self.body.encoder(self.source(src) * 4.0 + self.places[: src.size(1)], src_key_padding_mask=src == PAD)

            def write(self, tgt, memory, src):
                later = m.triu(m.ones(tgt.size(1), tgt.size(1), dtype=m.bool), diagonal=1)
                x = self.target(tgt) * 4.0 + self.places[: tgt.size(1)]
                return self.head(self.body.decoder(x, memory, tgt_mask=later, memory_key_padding_mask=src == PAD))

        model = started(Translator(), m, 0.2)
        criterion = nn.CrossEntropyLoss(ignore_index=PAD)
        optimizer = m.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9)
        scheduler, losses = m.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=40, pct_start=0.1), []
        for _ in range(40):
            src, tgt = batch(8)
            loss = criterion(model(src, tgt[:, :-1]).reshape(-1, 9), tgt[:, 1:].reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            scheduler.step()
            losses += [float(f"{loss:.5f}"), scheduler.get_last_lr()[0]]
        model.eval()
        src, tgt = batch(4)
        with m.inference_mode():
            memory = model.read(src)
            written, done, scores = m.ones(4, 1).fill_(BOS).type_as(src), m.zeros(4, dtype=m.bool), []
            for _ in range(5):
                scores.append(model.write(written, memory, src)[:, -1])
                _, chosen = m.max(scores[-1], dim=1)
                chosen = chosen.masked_fill(done, PAD)
                done |= chosen == EOS
                written = m.cat([written, chosen.unsqueeze(1)], dim=1)
        return [losses, scores, written]

    agree(f, rtol=2e-3, atol=5e-4)


PADDED = [[3], [1, 2], [2, 1], [3, 3], [0, 2], [5, 1, 3], [1], [4, 0, 0], [2, 2, 2, 1], [1, 6]]


@pytest.mark.parametrize("lengths", PADDED, ids=str)
def test_sequences_of_one_length(agree, lengths):
    for inner in ((), (2,)):

        def f(m, *texts):
            rnn = m.nn.utils.rnn
            padded = rnn.pad_sequence(texts, batch_first=True)
            parts = rnn.unpad_sequence(padded, m.tensor(lengths), batch_first=True)
            return [padded, rnn.pad_sequence(texts, padding_value=-1.5), rnn.pad_sequence(texts, padding_side="left"), *parts]

        agree(f, *[np.random.default_rng(i).standard_normal((n, *inner)).astype(np.float32) for i, n in enumerate(lengths)])
        agree(f, *[np.arange(n) for n in lengths])


def test_what_cannot_be_padded_or_packed(oracle):
    for m in (ours, oracle):
        for texts, side in (([], "left"), ([m.ones(2, 3), m.ones(2, 4)], "right"), ([m.ones(2)], "top")):
            with pytest.raises((RuntimeError, ValueError)):
                m.nn.utils.rnn.pad_sequence(texts, padding_side=side)
        with pytest.raises((RuntimeError, ValueError)):
            m.nn.utils.rnn.pack_padded_sequence(m.ones(2, 3, 4), [2, 3], batch_first=True)
        assert not isinstance(m.ones(1), m.nn.utils.rnn.PackedSequence)
