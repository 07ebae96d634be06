"""ONNX files of small random networks, as PyTorch's exporters write them: input of ``onnx_corpus``, like the models that packages ship.

    PYTHON -m tests.interop.onnx_exported FOLDER [NAME ...]
    GRAPHAD_ONNX_MODELS=FOLDER python -m tests.interop.onnx_corpus values|gradients|second|written

PYTHON is one with torch, onnxscript and transformers, which graphad's own environment does not have. Every network is written by the
exporter over ``torch.export`` (``new``) and, as far as that can, by the one over TorchScript (``old``), with extents left open.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

F = nn.functional
B, S = torch.export.Dim("batch"), torch.export.Dim("seq")
TEXT: dict[str, Any] = {"vocab_size": 60}
SMALL: dict[str, Any] = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
WORDS = torch.arange(1, 15).reshape(2, 7)


class _Output(nn.Module):
    """One output of a transformer, of words or of anything else."""

    def __init__(self, inner: Any, key: str = "last_hidden_state", **options: object) -> None:
        super().__init__()
        self.inner, self.key, self.options = inner, key, options

    def forward(self, x: Any) -> Any:
        return self.inner(x, **self.options)[self.key]


class _Translation(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = transformers.T5Model(transformers.T5Config(**TEXT, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2))

    def forward(self, words: Any, others: Any) -> Any:
        return self.inner(input_ids=words, decoder_input_ids=others, use_cache=False).last_hidden_state


class _Branches(nn.Module):
    """A branch in a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        def inner(x: Any) -> Any:
            return torch.cond(x.mean() > 0.5, lambda x: self.one(x).tanh(), lambda x: self.other(x).relu() * 2, (x,))

        return torch.cond(x.sum() > 0, inner, lambda x: x.sin(), (x,))


class _Loop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Any, n: Any) -> Any:
        start = (torch.zeros((), dtype=torch.int64), x)
        return while_loop(lambda i, x: i < n, lambda i, x: (i + 1, torch.tanh(self.layer(x))), start)[1]


class _Scan(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        def step(h: Any, y: Any) -> Any:
            h = torch.tanh(self.layer(h) + y)
            return h, h * 2.0

        return scan(step, torch.zeros(x.shape[1], 4), x)[1]


class _Messages(nn.Module):
    """Nodes of a graph, and what goes along its edges."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last, self.edge = nn.Linear(4, 8), nn.Linear(8, 2), nn.Linear(16, 1)

    def forward(self, x: Any, edges: Any) -> Any:
        h, (source, target) = self.first(x).relu(), (edges[0], edges[1])
        weight = torch.sigmoid(self.edge(torch.cat([h[source], h[target]], -1)))
        received = torch.zeros_like(h).index_add(0, target, h[source] * weight)
        degree = torch.zeros(x.shape[0]).scatter_add(0, target, torch.ones(target.shape[0])).clamp(min=1)
        largest = torch.full_like(h, -1.0).scatter_reduce(0, target[:, None].expand(-1, 8), h[source], "amax")
        return self.last(h + received / degree[:, None] + largest)


class _GraphAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.query, self.key = nn.Linear(4, 6), nn.Parameter(torch.randn(6)), nn.Parameter(torch.randn(6))

    def forward(self, x: Any, edges: Any) -> Any:
        h = self.layer(x)
        scores = F.leaky_relu((h @ self.query)[:, None] + (h @ self.key)[None])
        return torch.einsum("ij,jd->id", scores.masked_fill(edges == 0, -1e9).softmax(-1), h)


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 5, 2, bidirectional=True, batch_first=True)
        self.attention, self.gru = nn.MultiheadAttention(10, 2, batch_first=True), nn.GRU(10, 3)

    def forward(self, x: Any) -> Any:
        h, _ = self.lstm(x)
        h, _ = self.attention(h, h, h)
        return self.gru(h)[0]


class _UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.up, self.last = nn.ConvTranspose2d(8, 4, 2, stride=2), nn.Conv2d(8, 1, 1)
        self.groups, self.instances = nn.GroupNorm(2, 8), nn.InstanceNorm2d(4)

    def forward(self, x: Any) -> Any:
        a = self.instances(self.first(x)).relu()
        b = self.groups(self.down(a)).relu()
        c = self.up(b) + F.interpolate(b, scale_factor=2, mode="bilinear")[:, :4]
        sampled = F.grid_sample(a, torch.tanh(c[:, :2].permute(0, 2, 3, 1)), align_corners=False)
        return self.last(torch.cat([a, c], 1)), F.adaptive_avg_pool2d(b, 2), sampled


class _Tensors(nn.Module):
    """Functions of tensors that networks seldom have together."""

    def forward(self, x: Any, i: Any) -> Any:
        ordered = torch.topk(x, 2, -1)[0], x.sort(-1, descending=True)[0], torch.cumsum(x, -1), torch.gather(x, 1, i[:, None])
        shaped = x.unfold(1, 2, 1).sum(-1), F.pad(x, (1, 2), value=0.5), torch.roll(x, 1, -1) * x.flip(-1)
        summed = x.logsumexp(-1), torch.linalg.norm(x, dim=-1), x.var(-1), F.layer_norm(x, (5,))
        chosen = torch.where(x > 0, x, x.exp()), F.one_hot(i, 5).float(), torch.tril(x[:, :, None] @ x[:, None, :])
        return *ordered, *shaped, *summed, *chosen, torch.erf(x) + F.gelu(x, approximate="tanh")


def _of(model: str, **config: Any) -> Callable[[], nn.Module]:
    """A transformer with the weights that its library starts from."""
    made = getattr(transformers, f"{model}Model")
    return lambda: _Output(made(getattr(transformers, f"{model}Config")(**config)))


def _causal(model: str, **config: Any) -> Callable[[], nn.Module]:
    options: dict[str, Any] = {**TEXT, **SMALL, "num_key_value_heads": 1, **config}
    made = getattr(transformers, f"{model}ForCausalLM")
    return lambda: _Output(made(getattr(transformers, f"{model}Config")(**options)), "logits", use_cache=False)


# name -> network, inputs, open extents of each, whether the older exporter is asked as well
Network = tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...], tuple[dict[int, Any] | None, ...], bool]
IMAGES = torch.randn(2, 3, 32, 32)
NETWORKS: dict[str, Network] = {
    "bert": (_of("Bert", **TEXT, **SMALL, num_hidden_layers=2), (WORDS,), ({0: B, 1: S},), True),
    "distil": (_of("DistilBert", **TEXT, dim=16, n_layers=2, n_heads=2, hidden_dim=32), (WORDS,), ({0: B, 1: S},), True),
    "gpt2": (_of("GPT2", **TEXT, n_embd=16, n_layer=2, n_head=2, n_positions=32, use_cache=False), (WORDS,), ({0: B, 1: S},), True),
    "llama": (_causal("Llama", num_hidden_layers=2), (WORDS,), ({0: B, 1: S},), True),
    "mamba": (_of("Mamba", **TEXT, hidden_size=16, num_hidden_layers=1, state_size=4), (WORDS,), ({0: B},), True),
    "t5": (_Translation, (WORDS, WORDS[:, :5]), ({0: B, 1: S}, {0: B, 1: torch.export.Dim("others")}), True),
    "vit": (_of("ViT", **SMALL, num_hidden_layers=2, image_size=32, patch_size=8), (IMAGES,), ({0: B},), True),
    "swin": (
        _of("Swin", image_size=32, patch_size=4, embed_dim=8, depths=[2, 2], num_heads=[1, 2], window_size=4),
        (IMAGES,),
        ({0: B},),
        True,
    ),
    "convnext": (_of("ConvNext", hidden_sizes=[8, 16], depths=[1, 1], num_stages=2), (IMAGES,), ({0: B},), True),
    "branches": (_Branches, (torch.randn(3, 4),), ({0: B},), False),
    "loop": (_Loop, (torch.randn(3, 4), torch.tensor(3)), ({0: B}, None), False),
    "scan": (_Scan, (torch.randn(6, 3, 4),), ({0: S},), False),
    "messages": (
        _Messages,
        (torch.randn(5, 4), torch.arange(18).reshape(2, 9) % 5),
        ({0: torch.export.Dim("nodes")}, {1: torch.export.Dim("edges")}),
        True,
    ),
    "graph_attention": (
        _GraphAttention,
        (torch.randn(5, 4), torch.eye(5, dtype=torch.long)),
        ({0: torch.export.Dim("nodes")}, {0: torch.export.Dim("nodes"), 1: torch.export.Dim("nodes")}),
        True,
    ),
    "recurrent": (_Recurrent, (torch.randn(2, 6, 4),), ({0: B, 1: S},), True),
    "unet": (_UNet, (torch.randn(2, 3, 16, 16),), ({0: B},), True),
    "tensors": (_Tensors, (torch.randn(4, 5), torch.arange(4)), ({0: B}, {0: B}), True),
}


def export(name: str, folder: Path) -> None:
    """Write a network by both exporters; what one of them cannot write is said."""
    made, inputs, extents, both = NETWORKS[name]
    torch.manual_seed(0)
    network = made().eval()
    for which in ("new", "old") if both else ("new",):
        path = folder / which / f"{name}.onnx"
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            if which == "new":
                torch.onnx.export(network, inputs, path, dynamo=True, dynamic_shapes=extents, external_data=False, verbose=False)
            else:
                names = [f"in{i}" for i in range(len(inputs))]
                axes = {name: {axis: dim.__name__ for axis, dim in (each or {}).items()} for name, each in zip(names, extents, strict=True)}
                torch.onnx.export(network, inputs, str(path), dynamo=False, input_names=names, dynamic_axes=axes, opset_version=17)
        except Exception as error:  # a network that an exporter cannot write is no file, and no test
            path.unlink(missing_ok=True)
            print(f"{which}/{name} is not written: {type(error).__name__}: {str(error).splitlines()[0][:120]}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    for each in sys.argv[2:] or NETWORKS:
        export(each, Path(sys.argv[1]).resolve())
