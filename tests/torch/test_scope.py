"""What is out of scope answers as it should: no, 0, nothing, or an error that names the way."""

import csv
import inspect
import warnings

import pytest

import tinygrad_tf.torch as torch


def test_questions_are_answered_no_and_0():
    assert not torch.cuda.is_available()
    assert not torch.cuda.is_bf16_supported()
    assert not torch.backends.mps.is_available()
    assert not torch.backends.cuda.is_built()
    assert not torch.accelerator.is_available()
    assert not torch.distributed.is_available()
    assert not torch.distributed.is_initialized()
    assert torch.cuda.max_memory_allocated() == torch.cuda.memory_allocated("cuda:0") == torch.cuda.device_count() == 0
    assert torch.version.cuda is None


def test_what_only_tunes_does_nothing():
    torch.cuda.manual_seed(1)
    torch.cuda.manual_seed_all(1)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.deterministic = True
    torch.set_float32_matmul_precision("high")
    torch.use_deterministic_algorithms(True)
    torch.set_default_dtype(torch.float32)
    torch.set_default_device("cpu")


@pytest.mark.parametrize(
    "f",
    [
        lambda: torch.cuda.synchronize(),
        lambda: torch.cuda.set_device(0),
        lambda: torch.ones(1).cuda(),
        lambda: torch.ones(1).to("cuda:1"),
        lambda: torch.ones(1).to(torch.device("cuda")),
        lambda: torch.zeros(2, device="cuda"),
        lambda: torch.nn.Linear(1, 1).cuda(),
        lambda: torch.nn.Linear(1, 1).to("cuda"),
        lambda: torch.nn.Linear(1, 1, device="cuda"),
        lambda: torch.tensor(1, device="cuda"),
        lambda: torch.nn.Embedding(1, 1, device="cuda"),
        lambda: torch.nn.LayerNorm(1, device="cuda"),
        lambda: torch.Generator(device="cuda"),
        lambda: torch.nn.Identity().to("cuda"),
        lambda: torch.arange(3, device="cuda"),
        lambda: torch.ones(1).new_zeros(1, device="cuda"),
        lambda: torch.set_default_device("cuda"),
        lambda: torch.ones(1).to(device="cuda", dtype=torch.float64),
    ],
)
def test_what_needs_cuda_never_stays_on_the_cpu_in_silence(f):
    with pytest.raises(RuntimeError, match="no CUDA here: tensors live on the CPU"):
        f()


def test_other_devices():
    with pytest.raises(RuntimeError, match="no mps here"):
        torch.ones(1).to("mps")
    assert (torch.device("cuda", 1).type, torch.device("cuda:1").index, torch.device("cpu").index) == ("cuda", 1, None)
    assert repr(torch.device("cuda:1")) == "device(type='cuda', index=1)"
    x = torch.ones(1)
    assert x.to("cpu", non_blocking=True).pin_memory() is x
    assert x.to(torch.device("cpu")) is x.cpu() is x


def test_compile_returns_its_argument():
    model = torch.nn.Linear(1, 1)
    assert torch.compile(model, mode="max-autotune", fullgraph=True) is model
    assert list(torch.compile(model).state_dict()) == ["weight", "bias"]

    @torch.compile
    def f(x):
        return x + 1

    @torch.compile(dynamic=True)
    def g(x):
        return x + 2

    assert (f(1), g(1)) == (2, 3)


def test_autocast_changes_nothing_and_says_so_once(monkeypatch):
    monkeypatch.setattr(torch.amp, "_warned", False)
    with pytest.warns(UserWarning, match="computes in float32 here"):
        context = torch.amp.autocast(device_type="cpu", dtype=torch.bfloat16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with (
            context,
            torch.autocast("cpu", dtype=torch.float16),
            torch.autocast("cpu", enabled=False),
            torch.cuda.amp.autocast("cuda"),
        ):
            assert (torch.ones(2) @ torch.ones(2)).dtype == torch.float32

        @torch.autocast("cpu")
        def f():
            return torch.ones(1).dtype

        assert f() == torch.float32


def test_a_scaler_scales_nothing_and_steps():
    with pytest.warns(UserWarning, match="CUDA is not available"):
        torch.cuda.amp.GradScaler()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaler = torch.amp.GradScaler("cuda", enabled=False)
    p = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([p], lr=0.5)
    loss = (p * 2).sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [0]
    scaler.load_state_dict(scaler.state_dict())


def test_bfloat16_is_a_name():
    assert {"bfloat16": torch.bfloat16, "float16": torch.float16}["bfloat16"] is torch.bfloat16
    for f in (
        lambda: torch.ones(1, dtype=torch.bfloat16),
        lambda: torch.ones(1).to(torch.bfloat16),
        lambda: torch.tensor(1.0, dtype=torch.bfloat16),
        lambda: torch.nn.Linear(1, 1).to(torch.bfloat16),
        lambda: torch.nn.Linear(1, 1, dtype=torch.bfloat16),
        lambda: torch.set_default_dtype(torch.bfloat16),
        lambda: torch.arange(3, dtype=torch.bfloat16),
    ):
        with pytest.raises(NotImplementedError, match="float32"):
            f()
    assert torch.ones(2, dtype=torch.float16).dtype == torch.half
    with pytest.raises(NotImplementedError, match="the default dtype is float32"):
        torch.set_default_dtype(torch.float64)


def test_what_is_imported_at_the_top_refuses_when_called():
    from tinygrad_tf.torch.distributed import destroy_process_group, init_process_group
    from tinygrad_tf.torch.multiprocessing import spawn
    from tinygrad_tf.torch.nn.parallel import DistributedDataParallel as DDP
    from tinygrad_tf.torch.utils.data.distributed import DistributedSampler

    assert not isinstance(torch.nn.Linear(1, 1), DDP)
    for f in (
        destroy_process_group,
        lambda: init_process_group(backend="nccl"),
        lambda: DDP(torch.nn.Linear(1, 1)),
        lambda: DistributedSampler([1]),
        lambda: spawn(print),
        torch.distributed.get_rank,
        torch.distributed.barrier,
    ):
        with pytest.raises(NotImplementedError, match="one process computes here"):
            f()


@pytest.mark.parametrize(
    "module,name,way",
    [
        (torch, "polar", "cos and sin"),
        (torch, "view_as_complex", "cos and sin"),
        (torch, "jit", "runs as it is"),
        (torch, "onnx", "runs as it is"),
        (torch.nn, "attention", "scaled_dot_product_attention"),
        (torch, "quantization", "quantized"),
        (torch, "sparse", "dense"),
        (torch, "vmap", "batch axis"),
        (torch, "complex64", "cos and sin"),
        (torch, "svd", "numpy.linalg"),
        (torch.linalg, "eigh", "numpy.linalg"),
        (torch.nn, "Conv3d", "Conv2d"),
        (torch.nn, "Bilinear", "torch.einsum"),
        (torch.nn, "InstanceNorm2d", "GroupNorm"),
        (torch.nn.functional, "interpolate", "repeat_interleave"),
        (torch.nn.functional, "unfold", "Tensor.unfold"),
        (torch.nn.utils, "weight_norm", "F.normalize"),
        (torch.optim, "NAdam", "RAdam"),
        (torch.autograd, "set_detect_anomaly", "torch.autograd.detect_anomaly"),
    ],
)
def test_unsupported_names_are_not_there_and_say_what_to_do(module, name, way):
    assert not hasattr(module, name)
    with pytest.raises(NotImplementedError, match=f"{name} is not supported: .*{way}"):
        getattr(module, name)


@pytest.mark.parametrize(
    "line,way",
    [
        ("from tinygrad_tf.torch import polar", "torch.polar is not supported: .*cos and sin"),
        ("from tinygrad_tf.torch import Tensor, view_as_complex", "torch.view_as_complex is not .*cos and sin"),
        ("from tinygrad_tf.torch import jit", "torch.jit is not .*runs as it is"),
        ("import tinygrad_tf.torch.onnx", "torch.onnx is not .*runs as it is"),
        ("from tinygrad_tf.torch.autograd.functional import hessian", "torch.autograd.functional is not .*create_graph=True"),
        ("from tinygrad_tf.torch.autograd import gradcheck", "torch.autograd.gradcheck is not .*tinygrad_tf.check.gradcheck"),
        ("from tinygrad_tf.torch.nn.attention import sdpa_kernel", "torch.nn.attention is .*scaled_dot_product_attention"),
        (
            "from tinygrad_tf.torch.nn.attention.flex_attention import flex_attention",
            "torch.nn.attention is .*scaled_dot_product_attention",
        ),
        ("from tinygrad_tf.torch.ao.quantization import quantize_dynamic", "torch.ao is .*quantized"),
        ("from tinygrad_tf.torch.distributed.fsdp import FullyShardedDataParallel", "fsdp is not .*one process computes"),
        ("from tinygrad_tf.torch.nn import Linear, NoSuchLayer", r"tinygrad_tf has no torch\.nn\.NoSuchLayer: .*COVERAGE"),
        ("import tinygrad_tf.torch.no_such_module", r"tinygrad_tf has no torch\.no_such_module: .*COVERAGE"),
    ],
)
def test_an_import_of_what_is_not_there_says_what_to_do(line, way):
    """A NotImplementedError, and an ImportError too, for programs that look whether they may import something."""
    for kind in (NotImplementedError, ImportError):
        with pytest.raises(kind, match=way):
            exec(line)


@pytest.mark.parametrize(
    "line,same",
    [
        ("from tinygrad_tf.torch.cuda.amp import GradScaler as found", torch.amp.GradScaler),
        ("from tinygrad_tf.torch.nn.parameter import Parameter as found", torch.nn.Parameter),
        ("from tinygrad_tf.torch.nn.modules import Module as found", torch.nn.Module),
        ("from tinygrad_tf.torch.optim.optimizer import Optimizer as found", torch.optim.Optimizer),
        ("from tinygrad_tf.torch.utils.data.dataset import Dataset as found", torch.utils.data.Dataset),
        ("from tinygrad_tf.torch.optim.lr_scheduler import LambdaLR as found", torch.optim.lr_scheduler.LambdaLR),
        ("import tinygrad_tf.torch.nn.parameter as found", torch.nn.parameter),
    ],
)
def test_modules_that_pytorch_has_by_another_path(line, same):
    names = {}
    exec(line, names)
    assert names["found"] is same


def test_any_name_of_distributed_can_be_imported_and_asked_about():
    from tinygrad_tf.torch.distributed import ReduceOp, new_group

    assert not isinstance(1, ReduceOp)
    for each in (ReduceOp, new_group):
        with pytest.raises(NotImplementedError, match="one process computes here"):
            each()
    assert not hasattr(torch.distributed, "__wrapped__")


def test_names_that_nobody_knows_are_just_not_there():
    assert not hasattr(torch, "no_such_name")
    for kind in (AttributeError, NotImplementedError):
        with pytest.raises(kind, match=r"tinygrad_tf has no torch\.no_such_name"):
            torch.no_such_name  # noqa: B018
    assert hasattr(torch.nn.functional, "scaled_dot_product_attention")


def test_a_summary_writer_writes_a_table(tmp_path):
    from tinygrad_tf.torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(log_dir=tmp_path / "new" / "logs") as writer:
        writer.flush()
        writer.add_scalar("Loss/train", torch.tensor(1.5), 3)
        writer.flush()
        writer.add_scalars("Loss", {"a": 1, "b": 2}, 4)
    SummaryWriter(tmp_path / "new" / "logs").close()
    rows = list(csv.DictReader((tmp_path / "new" / "logs" / "scalars.csv").read_text().splitlines()))
    assert [(row["step"], row["tag"], row["value"]) for row in rows] == [
        ("3", "Loss/train", "1.5"),
        ("4", "Loss/a", "1.0"),
        ("4", "Loss/b", "2.0"),
    ]


def test_fused_and_foreach_are_in_the_signature():
    """optim.AdamW fused"""
    for cls in (torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD):
        assert {"fused", "foreach"} <= set(inspect.signature(cls).parameters)
    p = torch.nn.Parameter(torch.ones(1))
    torch.optim.AdamW([p], fused=False, foreach=None)


# ------------------------------------------------------------------------------------------------ switches


def test_switches(agree):
    """torch.no_grad torch.inference_mode torch.set_grad_enabled"""

    def f(m):
        x, seen = m.ones(2, requires_grad=True), []
        look = lambda: seen.append(int((x * 2).requires_grad))
        with m.no_grad():
            look()
            with m.enable_grad():
                look()
            with m.set_grad_enabled(True):
                look()
            look()
        for switch in (
            m.no_grad(),
            m.inference_mode(),
            m.set_grad_enabled(False),
            m.inference_mode(mode=True),
            m.inference_mode(False),
        ):
            with switch:
                look()
            look()
        for switch in (
            m.no_grad,
            m.no_grad(),
            m.inference_mode,
            m.inference_mode(),
            m.set_grad_enabled(False),
            m.enable_grad(),
        ):
            call = switch(lambda: int((x * 2).requires_grad))
            seen += [call(), call()]
            look()

        @m.no_grad()
        def stream():
            for _ in range(2):
                yield int((x * 2).requires_grad)

        for inside in stream():
            seen.append(inside)
            look()
        m.set_grad_enabled(False)
        look()
        m.set_grad_enabled(True)
        seen.append(int(m.is_grad_enabled()))
        try:
            with m.no_grad():
                raise KeyError
        except KeyError:
            look()
        return seen

    agree(f)


CATEGORICAL = [
    [0.5, 0.5],
    [1.0, 3.0],
    [[0.2, 0.8], [1.0, 1.0]],
    [5.0],
    [1, 2, 3, 4],
    [0.0, 1.0],
    [[1.0, 2.0, 3.0]],
    [2.0, 0.0, 1.0],
    [1e-3, 1.0],
    [9, 1, 1, 1, 1],
]


@pytest.mark.parametrize("p", CATEGORICAL, ids=str)
def test_categorical(agree, oracle, p):
    """torch.distributions.Categorical"""

    def f(m, by):
        x = m.tensor(p, dtype=m.float32, requires_grad=True)
        d = m.distributions.Categorical(**{by: x})
        places = m.zeros(x.shape[:-1], dtype=m.long) + (x.shape[-1] - 1)
        return [
            d.probs,
            d.log_prob(places),
            d.entropy() if 0.0 not in p else x,
            d.log_prob(m.zeros(3, *x.shape[:-1], dtype=m.long) + int(x.shape[-1] > 1)),
        ]

    for by in ("probs", "logits"):
        agree(f, by, rtol=1e-4, atol=1e-5)
    drawn = torch.distributions.Categorical(torch.tensor(p, dtype=torch.float32)).sample((4000,))
    expected = oracle.distributions.Categorical(oracle.tensor(p, dtype=oracle.float32))
    assert tuple(drawn.shape) == (4000, *expected.batch_shape)
    for k in range(expected.probs.shape[-1]):
        assert abs((drawn == k).float().mean(0) - torch.tensor(expected.probs[..., k].numpy())).max() < 0.04


def test_assert_close(oracle):
    """torch.testing.assert_close"""
    for m in (torch, oracle):
        a = m.ones(2, 3)
        m.testing.assert_close(a, a + 1e-7)
        m.testing.assert_close([a, {"x": 1.0}], [a, {"x": 1.0}])
        m.testing.assert_close(a, a + 0.1, atol=0.2, rtol=0)
        m.testing.assert_close(a.double(), a, check_dtype=False)
        for other in (a + 1e-3, a.double(), a[0], a * m.nan):
            with pytest.raises(AssertionError):
                m.testing.assert_close(a, other)
        with pytest.raises(ValueError, match="rtol|atol"):
            m.testing.assert_close(a, a, rtol=1)


@pytest.mark.parametrize(
    "name,way",
    [
        ("quantile", "sort"),
        ("nansum", r"nan_to_num\(\).sum"),
        ("less_equal", "x > other"),
        ("to_sparse", "dense here"),
        ("resize_", r"x.reshape\(shape\)"),
        ("index_put_", r"x\[index\] = values"),
        ("logical_not_", r"x = x.logical_not\(...\)"),
    ],
)
def test_a_method_that_a_tensor_does_not_have_says_what_to_take(name, way):
    x = torch.ones(2)
    assert not hasattr(x, name)
    with pytest.raises(NotImplementedError, match=f"Tensor.{name} is not supported: .*{way}"):
        getattr(x, name)


def test_what_no_tensor_has_is_just_not_there():
    x = torch.ones(2)
    with pytest.raises(AttributeError, match=r"tinygrad_tf has no Tensor.unsqueze: .*COVERAGE") as raised:
        x.unsqueze(0)
    assert type(raised.value) is AttributeError  # of which Python says what the name may have been meant for
    assert not hasattr(x, "_ipython_display_")
    with pytest.raises(NotImplementedError, match="torch.quantile is not supported: x.sort"):
        torch.quantile(x, 0.5)


def test_every_way_leads_around_something_that_is_really_missing():
    from tinygrad_tf.missing import WAYS

    assert [name for name in WAYS if hasattr(torch.Tensor, name)] == []


def test_the_ways_around_a_method_are_methods_of_pytorch(oracle):
    from tinygrad_tf.missing import WAYS

    assert [name for name in WAYS if not hasattr(oracle.Tensor, name)] == []
