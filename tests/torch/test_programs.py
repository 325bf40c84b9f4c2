"""Whole programs in the manner of PyTorch's courses: from the same weights and data the same losses and gradients as there.

Each is a function of the module `m`; weights come from NumPy, since the random streams differ.
"""

import copy
import inspect
import io
import math
from dataclasses import dataclass

import numpy as np
import pytest

import tinygrad_tf.torch as ours

STEPS = 12


def filled(model, m, scale=0.2):
    """The same numbers in every parameter, whatever the module."""
    for i, p in enumerate(model.parameters()):
        draw = np.random.default_rng([i, *p.shape]).standard_normal(tuple(p.shape)) * scale
        p.data.copy_(m.tensor((draw + (p.dim() == 1)).astype(np.float32)))
    return model


def batches(m, shape, high, steps=STEPS):
    rng = np.random.default_rng(0)
    return [m.from_numpy(rng.integers(0, high, shape)) for _ in range(steps)]


# ------------------------------------------------------------------------------------------------ a decoder, with checkpoints


@dataclass
class Config:
    block_size: int = 8
    vocab_size: int = 11
    n_layer: int = 2
    n_head: int = 2
    n_embd: int = 8
    dropout: float = 0.0
    bias: bool = False


def decoder(m, config, flash):
    nn, F = m.nn, m.nn.functional

    class Norm(nn.Module):
        def __init__(self, ndim, bias):
            super().__init__()
            self.weight = nn.Parameter(m.ones(ndim))
            self.bias = nn.Parameter(m.zeros(ndim)) if bias else None

        def forward(self, x):
            return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
            self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
            self.drop = nn.Dropout(config.dropout)
            self.flash = flash and hasattr(m.nn.functional, "scaled_dot_product_attention")
            if not self.flash:
                mask = m.tril(m.ones(config.block_size, config.block_size))
                self.register_buffer("bias", mask.view(1, 1, config.block_size, config.block_size))

        def forward(self, x):
            b, t, c = x.size()
            q, k, v = self.c_attn(x).split(config.n_embd, dim=2)
            q, k, v = (y.view(b, t, config.n_head, c // config.n_head).transpose(1, 2) for y in (q, k, v))
            if self.flash:
                p = config.dropout if self.training else 0
                y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=p, is_causal=True)
            else:
                att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
                att = att.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf"))
                y = self.drop(F.softmax(att, dim=-1)) @ v
            return self.drop(self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c)))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.attn, self.ln_2 = Norm(config.n_embd, config.bias), Attention(), Norm(config.n_embd, config.bias)
            self.mlp = nn.ModuleDict(
                {"c_fc": nn.Linear(config.n_embd, 4 * config.n_embd), "c_proj": nn.Linear(4 * config.n_embd, config.n_embd)}
            )

        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x)), approximate="tanh"))

    class GPT(nn.Module):
        def __init__(self):
            super(GPT, self).__init__()  # noqa: UP008  as many programs have it
            self.transformer = nn.ModuleDict(
                {
                    "wte": nn.Embedding(config.vocab_size, config.n_embd),
                    "wpe": nn.Embedding(config.block_size, config.n_embd),
                    "h": nn.ModuleList([Block() for _ in range(config.n_layer)]),
                    "ln_f": Norm(config.n_embd, config.bias),
                }
            )
            self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
            self.transformer.wte.weight = self.lm_head.weight
            self.apply(self._init)

        def _init(self, module):
            if isinstance(module, nn.Linear):
                m.nn.init.normal_(module.weight, mean=0.0, std=0.02)
                if module.bias is not None:
                    m.nn.init.zeros_(module.bias)

        def forward(self, idx, targets=None):
            pos = m.arange(0, idx.size(1), dtype=m.long, device=idx.device)
            x = self.transformer.wte(idx) + self.transformer.wpe(pos)
            for block in self.transformer.h:
                x = block(x)
            x = self.transformer.ln_f(x)
            if targets is None:
                return self.lm_head(x[:, [-1], :]), None
            logits = self.lm_head(x)
            return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1), ignore_index=-1)

        @m.no_grad()
        def generate(self, idx, count, top_k):
            for _ in range(count):
                cond = idx if idx.size(1) <= config.block_size else idx[:, -config.block_size :]
                logits = self(cond)[0][:, -1, :] / 0.8
                v, _ = m.topk(logits, min(top_k, logits.size(-1)))
                logits[logits < v[:, [-1]]] = -float("Inf")
                idx = m.cat((idx, m.multinomial(F.softmax(logits, dim=-1), num_samples=1)), dim=1)
            return idx

    return filled(GPT(), m)


@pytest.mark.parametrize("flash", [True, False])
def test_a_decoder_trained_saved_resumed_and_cropped(agree, flash):
    """optim.AdamW Optimizer/Module.param_groups Optimizer/Module.step"""

    def f(m):
        config = Config()
        model = decoder(m, config, flash)
        names = {name: p for name, p in model.named_parameters() if p.requires_grad}
        groups = [
            {"params": [p for p in names.values() if p.dim() >= 2], "weight_decay": 0.1},
            {"params": [p for p in names.values() if p.dim() < 2], "weight_decay": 0.0},
        ]
        extra = {"fused": False} if "fused" in inspect.signature(m.optim.AdamW).parameters else {}
        optimizer = m.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95), eps=1e-8, **extra)
        scaler = m.cuda.amp.GradScaler(enabled=False)
        out, first = [sum(p.numel() for p in model.parameters()), ",".join(model.state_dict())], []
        for i, ids in enumerate(batches(m, (3, 9), config.vocab_size)):
            for group in optimizer.param_groups:
                group["lr"] = 1e-2 * 0.5 * (1 + math.cos(math.pi * i / STEPS))
            for part in (ids[:2], ids[2:]):  # gradients add up
                _, loss = model(part[:, :-1], part[:, 1:])
                scaler.scale(loss / 2).backward()
            if not first:
                first += [p.grad.clone() for p in model.parameters()]
            scaler.unscale_(optimizer)
            m.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            out.append(loss.item())
            if i == 5:  # saved, and loaded into another model
                file = io.BytesIO()
                m.save(
                    {
                        "model": model.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "config": vars(config),
                        "best": loss.detach(),
                    },
                    file,
                )
                file.seek(0)
                kept = m.load(file, map_location="cpu")
                model = decoder(m, Config(**kept["config"]), flash)
                model.load_state_dict(kept["model"])
                params = list(model.parameters())
                optimizer = m.optim.AdamW(
                    [{"params": [p for p in params if p.dim() >= 2]}, {"params": [p for p in params if p.dim() < 2]}]
                )
                optimizer.load_state_dict(kept["optimizer"])
                out.append(f"{kept['best']:.4f}")
        model.transformer.wpe.weight = m.nn.Parameter(model.transformer.wpe.weight[:4])
        for block in model.transformer.h:
            if hasattr(block.attn, "bias"):
                block.attn.bias = block.attn.bias[:, :, :4, :4]
        model.eval()
        logits, nothing = model(m.tensor([[1, 2, 3]]))
        sampled = model.generate(m.zeros((1, 1), dtype=m.long), 3, top_k=5)
        return [
            out,
            first,
            logits.detach(),
            nothing,
            list(sampled.shape),
            int(model.transformer.wte.weight is model.lm_head.weight),
        ]

    agree(f, rtol=2e-4, atol=1e-4)


# ------------------------------------------------------------------------------------------------ recurrent, by hand


def cell(m, kind, width):
    nn, F = m.nn, m.nn.functional

    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            self.gates = nn.ModuleList([nn.Linear(2 * width, width) for _ in range(3 if kind == "gated" else 1)])

        def forward(self, x, h):
            xh = m.cat([x, h], dim=1)
            if kind == "plain":
                return F.tanh(self.gates[0](xh))
            r, z = F.sigmoid(self.gates[0](xh)), F.sigmoid(self.gates[1](xh))
            return (1 - z) * h + z * F.tanh(self.gates[2](m.cat([x, r * h], dim=1)))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.start = nn.Parameter(m.zeros(1, width))
            self.table, self.cell, self.head = nn.Embedding(7, width), Cell(), nn.Linear(width, 7)

        def forward(self, ids, targets):
            b, t = ids.size()
            x, h, seen = self.table(ids), self.start.expand((b, -1)), []
            for i in range(t):
                h = self.cell(x[:, i, :], h)
                seen.append(h)
            logits = self.head(m.stack(seen, 1))
            return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)

    return filled(Model(), m)


@pytest.mark.parametrize("kind", ["plain", "gated"])
def test_a_recurrent_network_by_hand(agree, kind):
    """optim.Adam"""

    def f(m):
        model = cell(m, kind, 6)
        optimizer = m.optim.Adam(params=model.parameters(), lr=1e-2, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.01)
        losses, grads = [], []
        for ids in batches(m, (4, 6), 7):
            targets = m.roll(ids, -1, 1)
            targets[:, -1] = -1
            loss = model(ids, targets)
            model.zero_grad(set_to_none=True)
            loss.backward()
            grads = grads or [p.grad.clone() for p in model.parameters()]
            optimizer.step()
            losses.append(loss.item())
        return [losses, grads]

    agree(f, rtol=2e-4, atol=1e-4)


# ------------------------------------------------------------------------------------------------ the encoder-decoder of 2017


def test_parts_of_an_encoder_decoder(agree):
    """optim.lr_scheduler.LambdaLR lr_lambda optimizer"""

    def f(m):
        nn, F = m.nn, m.nn.functional
        pe = m.zeros(10, 8)
        position, factor = m.arange(0, 10).unsqueeze(1), m.exp(m.arange(0, 8, 2) * -(math.log(10000.0) / 8))
        pe[:, 0::2], pe[:, 1::2] = m.sin(position * factor), m.cos(position * factor)

        def smoothed(target, pad=0, size=9, s=0.1):
            true = m.zeros(target.size(0), size).fill_(s / (size - 2))
            true.scatter_(1, target.data.unsqueeze(1), 1.0 - s)
            true[:, pad] = 0
            mask = m.nonzero(target.data == pad)
            if mask.dim() > 0:
                true.index_fill_(0, mask.squeeze(), 0.0)
            return true

        layer = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(2)])
        table, head = nn.Embedding(9, 8), nn.Linear(8, 9)
        model = filled(nn.ModuleList([table, layers, head]), m)
        for p in model.parameters():
            if p.dim() > 1:
                p.requires_grad_()
        optimizer = m.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
        rate = lambda step: 8**-0.5 * min((step + 1) ** -0.5, (step + 1) * 4**-1.5) * 0.05
        scheduler = m.optim.lr_scheduler.LambdaLR(optimizer=optimizer, lr_lambda=rate)
        criterion = nn.KLDivLoss(reduction="sum")
        out = []
        for ids in batches(m, (2, 6), 9):
            mask = (ids != 0).unsqueeze(-2) & (m.triu(m.ones(1, 6, 6), diagonal=1).type(m.uint8) == 0)
            x = table(ids) * math.sqrt(8) + pe[:6].requires_grad_(False)
            for each in layers:
                scores = m.matmul(x, x.transpose(-2, -1)) / math.sqrt(8)
                x = x + each(F.softmax(scores.masked_fill(mask == 0, -1e9), dim=-1) @ x)
            logp = F.log_softmax(head(x), dim=-1).contiguous().view(-1, 9)
            loss = criterion(logp, smoothed(ids.reshape(-1)).clone().detach()) / (ids != 0).data.sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
            out += [loss.item(), optimizer.param_groups[0]["lr"]]
        return [out, pe, scheduler.state_dict()["last_epoch"]]

    agree(f, rtol=2e-4, atol=1e-4)


# ------------------------------------------------------------------------------------------------ experts, rotary, plain SGD


def test_experts_and_rotary_positions(agree):
    """optim.lr_scheduler.CosineAnnealingLR optim.SGD"""

    def f(m):
        nn, F = m.nn, m.nn.functional
        gate, experts = nn.Linear(8, 4, bias=False), nn.ModuleList([nn.Linear(8, 8, bias=False) for _ in range(4)])
        norm = nn.Parameter(m.ones(8))
        model = filled(nn.ModuleList([gate, experts, nn.Identity()]), m, 0.4)
        inv = 1.0 / (10000 ** (m.arange(0, 4, 2).float() / 4))
        angles = m.outer(m.arange(5).float(), inv)
        cos, sin = m.cat([angles.cos()] * 2, -1), m.cat([angles.sin()] * 2, -1)

        def rotate(x):  # (B, H, T, D)
            half = x.shape[-1] // 2
            return x * cos + m.cat((-x[..., half:], x[..., :half]), dim=-1) * sin

        optimizer = m.optim.SGD([*model.parameters(), norm], lr=0.5, momentum=0.9, nesterov=True)
        scheduler = m.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS)
        rng, losses, grads = np.random.default_rng(5), [], []
        for _ in range(STEPS):
            x = m.from_numpy(rng.standard_normal((2, 5, 8)).astype(np.float32))
            x = x * m.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * norm
            x = rotate(x.view(2, 5, 2, 4).permute(0, 2, 1, 3)).transpose(1, 2).reshape(10, 8)
            weights, chosen = m.topk(gate(x), k=2, dim=-1)
            weights = F.softmax(weights, dim=-1, dtype=m.float).to(x.dtype)
            out = m.zeros_like(x)
            for i, expert in enumerate(experts):
                rows, nth = m.where(chosen == i)
                if rows.numel() == 0:
                    continue
                out.index_add_(0, rows, expert(x[rows]) * weights[rows, nth, None])
            counts = F.one_hot(chosen, num_classes=4).sum(dim=(0, 1))
            loss = F.silu(out).square().mean() + 0.01 * (counts.float() / counts.sum()).var(unbiased=False)
            optimizer.zero_grad()
            loss.backward()
            grads = grads or [p.grad.clone() for p in [*model.parameters(), norm]]
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
        return [losses, grads, counts.tolist()]

    agree(f, rtol=2e-4, atol=1e-4)


def test_gradient_descent_by_hand(agree):
    """W and b as plain tensors; names counted in a matrix; `p.data += -lr * p.grad`; a sampled word."""

    def f(m):
        F = m.nn.functional
        words = ["ann", "bob", "ada", "abba"]
        chars = sorted(set("".join(words)))
        index = {c: i + 1 for i, c in enumerate(chars)} | {".": 0}
        counts, xs, ys = m.zeros((len(index), len(index)), dtype=m.int32), [], []
        for word in words:
            for a, b in zip(f".{word}", f"{word}."):
                counts[index[a], index[b]] += 1
                xs.append(index[a])
                ys.append(index[b])
        probabilities = (counts + 1).float()
        probabilities /= probabilities.sum(1, keepdim=True)
        likelihood = sum(m.log(probabilities[x, y]) for x, y in zip(xs, ys))
        xs, ys = m.tensor(xs), m.tensor(ys)
        w = m.tensor(np.random.default_rng(0).standard_normal((len(index), len(index))).astype(np.float32), requires_grad=True)
        hidden = m.tensor(np.random.default_rng(1).standard_normal((len(index), 2)).astype(np.float32)).requires_grad_()
        losses = []
        for _ in range(STEPS):
            logits = F.one_hot(xs, num_classes=len(index)).float() @ w + hidden[xs] @ m.ones(2, len(index))
            table = logits.exp()
            p = table / table.sum(1, keepdims=True)
            loss = -p[m.arange(len(xs)), ys].log().mean() + 0.01 * (w**2).mean()
            for each in (w, hidden):
                each.grad = None
            loss.backward()
            for each in (w, hidden):
                each.data += -10 * each.grad
            losses.append(loss.item())
        i, word = 0, []
        for _ in range(5):
            i = m.multinomial(probabilities[i], num_samples=1, replacement=True, generator=m.Generator().manual_seed(1)).item()
            word.append(i)
        return [
            losses,
            counts,
            "%.3f" % likelihood,  # noqa: UP031  this form is tested
            int(all(0 <= i < len(index) for i in word)),
            (w.data - w).abs().max().item(),
        ]

    agree(f, rtol=2e-4, atol=1e-4)


def test_a_loop_over_a_loader_with_plateaus(agree):
    """optim.lr_scheduler.ReduceLROnPlateau"""

    def f(m):
        nn, data = m.nn, m.utils.data

        class Windows(data.Dataset):
            def __init__(self, text, length, stride):
                starts = range(0, len(text) - length, stride)
                self.inputs = [m.tensor(text[i : i + length]) for i in starts]
                self.targets = [m.tensor(text[i + 1 : i + length + 1]) for i in starts]

            def __len__(self):
                return len(self.inputs)

            def __getitem__(self, i):
                return self.inputs[i], self.targets[i]

        text = np.random.default_rng(0).integers(0, 6, 80).tolist()
        loader = data.DataLoader(Windows(text, 8, 8), batch_size=2, shuffle=False, drop_last=True, num_workers=0)
        model = filled(nn.Sequential(nn.Embedding(6, 5), nn.LayerNorm(5), nn.Linear(5, 6)), m)
        optimizer = m.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.1)
        scheduler = m.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
        out = [len(loader)]
        for epoch in range(4):
            model.train()
            for inputs, targets in loader:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(inputs.to("cpu")).flatten(0, 1), targets.flatten())
                loss.backward()
                optimizer.step()
            model.eval()
            with m.no_grad():
                total = sum(nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()).item() for x, y in loader)
            scheduler.step(total + epoch)
            out += [total, optimizer.param_groups[0]["lr"]]
        return out

    agree(f, rtol=2e-4, atol=1e-4)


def test_attention_scores_filled_in_place(agree):
    def f(m):
        mask = m.triu(m.ones(5, 5), diagonal=1)
        w = m.tensor(np.random.default_rng(0).standard_normal((4, 12)).astype(np.float32), requires_grad=True)
        x = m.tensor(np.random.default_rng(1).random((2, 3, 4)).astype(np.float32))
        q, k, v = (x @ w).split(4, dim=-1)
        scores = q @ k.transpose(1, 2)
        scores.masked_fill_(mask.bool()[:3, :3], -m.inf)
        weights = m.softmax(scores / k.shape[-1] ** 0.5, dim=-1)
        assert ours.is_grad_enabled()
        return [weights @ v, weights, w]

    agree(f, rtol=1e-4, atol=1e-5)
