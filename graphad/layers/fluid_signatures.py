"""The layers of Fluid 1.8 that are one operator each: their signatures, and which slot or attribute each parameter is.

A parameter that has another name than the slot or the attribute is in ``binds``; one that is bound to "" is a hint without effect.
Layers that are more than one operator are functions: ``graphad.layers.nn``, ``shaping``, ``windows`` and others.
"""

from __future__ import annotations

from graphad.layers.signatures import Spec

_PLAIN = Spec("x, name=None")

SPECS: dict[str, Spec] = {
    **{
        f"reduce_{kind}": Spec("input, dim=None, keep_dim=False, name=None", f"reduce_{kind}", counts=kind in ("sum", "prod"))
        for kind in ("sum", "mean", "max", "min", "prod", "all", "any")
    },
    **{
        f"elementwise_{kind}": Spec("x, y, axis=-1, act=None, name=None", f"elementwise_{kind}")
        for kind in ("add", "sub", "mul", "div", "max", "min", "mod", "floordiv", "pow")
    },
    **dict.fromkeys(("abs", "acos", "asin", "atan", "ceil", "cos", "erf", "exp", "floor", "log", "logsigmoid", "reciprocal"), _PLAIN),
    **dict.fromkeys(("relu", "round", "rsqrt", "sigmoid", "sign", "sin", "softplus", "softsign", "sqrt", "square", "tanh"), _PLAIN),
    "tanh_shrink": _PLAIN,
    # -- activations
    "brelu": Spec("x, t_min=0.0, t_max=24.0, name=None"),
    "elu": Spec("x, alpha=1.0, name=None"),
    "gelu": Spec("x, approximate=False"),
    "hard_shrink": Spec("x, threshold=None"),
    "hard_sigmoid": Spec("x, slope=0.2, offset=0.5, name=None"),
    "hard_swish": Spec("x, threshold=6.0, scale=6.0, offset=3.0, name=None"),
    "leaky_relu": Spec("x, alpha=0.02, name=None"),
    "log_softmax": Spec("input, axis=None, dtype=None, name=None", binds={"dtype": ""}),
    "mish": Spec("x, threshold=20, name=None"),
    "relu6": Spec("x, threshold=6.0, name=None"),
    "selu": Spec("x, scale=None, alpha=None, name=None"),
    "softshrink": Spec("x, alpha=None", binds={"alpha": "lambda"}),
    "stanh": Spec("x, scale_a=0.67, scale_b=1.7159, name=None"),
    "swish": Spec("x, beta=1.0, name=None"),
    "thresholded_relu": Spec("x, threshold=None"),
    # -- shapes
    "cast": Spec("x, dtype, name=None", binds={"dtype": "out_dtype"}),
    "concat": Spec("input, axis=0, name=None"),
    "crop": Spec("x, shape=None, offsets=None, name=None"),
    "crop_tensor": Spec("x, shape=None, offsets=None, name=None"),
    "diag_embed": Spec("input, offset=0, dim1=-2, dim2=-1"),
    "expand": Spec("x, expand_times, name=None", paddle2="numpy_names.broadcast_to"),
    "flip": Spec("input, dims, name=None", binds={"dims": "axis"}),
    "fold": Spec("x, output_sizes, kernel_sizes, strides=1, paddings=0, dilations=1, name=None"),
    "gather": Spec("input, index, overwrite=True"),
    "gather_tree": Spec("ids, parents"),
    "gather_nd": Spec("input, index, name=None"),
    "hash": Spec("input, hash_size, num_hash=1, name=None", binds={"hash_size": "mod_by"}),
    "index_sample": Spec("x, index"),
    "index_select": Spec("input, index, dim=0"),
    "multiplex": Spec("inputs, index", binds={"inputs": "X", "index": "Ids"}),
    "pad": Spec("x, paddings, pad_value=0.0, name=None", paddle2="functional_images.pad"),
    "pad2d": Spec("input, paddings=[0, 0, 0, 0], mode='constant', pad_value=0.0, data_format='NCHW', name=None"),
    "pixel_shuffle": Spec("x, upscale_factor"),
    "reshape": Spec("x, shape, actual_shape=None, act=None, inplace=False, name=None", binds={"actual_shape": "Shape", "inplace": ""}),
    "reverse": Spec("x, axis"),
    "print": Spec("input", binds={"input": "In"}),
    "roll": Spec("input, shifts, dims=None", binds={"dims": "axis"}),
    "scatter": Spec("input, index, updates, name=None, overwrite=True", binds={"index": "Ids"}),
    "scatter_nd_add": Spec("ref, index, updates, name=None", binds={"ref": "X"}),
    "shape": Spec("input"),
    "shuffle_channel": Spec("x, group, name=None"),
    "similarity_focus": Spec("input, axis, indexes, name=None"),
    "size": Spec("input"),
    "slice": Spec("input, axes, starts, ends"),
    "squeeze": Spec("input, axes=[], name=None"),
    "stack": Spec("x, axis=0"),
    "strided_slice": Spec("input, axes, starts, ends, strides"),
    "transpose": Spec("x, perm, name=None", binds={"perm": "axis"}),
    "unfold": Spec("x, kernel_sizes, strides=1, paddings=0, dilations=1, name=None"),
    "unsqueeze": Spec("input, axes, name=None"),
    "unstack": Spec("x, axis=0, num=None"),
    # -- products, sums, order
    "bincount": Spec("x, weights=None, minlength=0, name=None"),
    "histogram": Spec("input, bins=100, min=0, max=0, name=None"),
    "addmm": Spec("input, x, y, alpha=1.0, beta=1.0, name=None", binds={"alpha": "Alpha", "beta": "Beta"}),
    "argsort": Spec("input, axis=-1, descending=False, name=None"),
    "bmm": Spec("x, y, name=None"),
    "clip_by_norm": Spec("x, max_norm, name=None"),
    "cos_sim": Spec("X, Y", binds={"X": "X", "Y": "Y"}, out=("Out",)),
    "dot": Spec("x, y, name=None"),
    "kron": Spec("x, y, out=None, name=None", binds={"out": ""}),
    "log1p": Spec("x, out=None, name=None", binds={"out": ""}),
    "logsumexp": Spec("x, dim=None, keepdim=False, out=None, name=None", binds={"dim": "axis", "out": ""}),
    "matmul": Spec(
        "x, y, transpose_x=False, transpose_y=False, alpha=1.0, name=None",
        binds={"transpose_x": "transpose_X", "transpose_y": "transpose_Y"},
    ),
    "mul": Spec("x, y, x_num_col_dims=1, y_num_col_dims=1, name=None"),
    "scale": Spec("x, scale=1.0, bias=0.0, bias_after_scale=True, act=None, name=None"),
    "trace": Spec("input, offset=0, dim1=0, dim2=1, out=None, name=None", binds={"dim1": "axis1", "dim2": "axis2", "out": ""}),
    # -- losses
    "bpr_loss": Spec("input, label, name=None"),
    "huber_loss": Spec("input, label, delta", binds={"label": "Y"}, out=("Out",)),
    "kldiv_loss": Spec("x, target, reduction='mean', name=None"),
    "label_smooth": Spec("label, prior_dist=None, epsilon=0.1, dtype='float32', name=None", binds={"label": "X", "dtype": ""}),
    "log_loss": Spec("input, label, epsilon=1e-4, name=None", binds={"input": "Predicted", "label": "Labels"}),
    "margin_rank_loss": Spec("label, left, right, margin=0.1, name=None", binds={"left": "X1", "right": "X2"}, out=("Out",)),
    "rank_loss": Spec("label, left, right, name=None"),
    "sigmoid_cross_entropy_with_logits": Spec("x, label, ignore_index=-100, name=None, normalize=False"),
    "sigmoid_focal_loss": Spec("x, label, fg_num, gamma=2.0, alpha=0.25", paddle2="functional_losses.sigmoid_focal_loss"),
    "smooth_l1": Spec("x, y, inside_weight=None, outside_weight=None, sigma=None", "smooth_l1_loss", out=("Out",)),
    # -- images
    "affine_channel": Spec("x, scale=None, bias=None, data_layout='NCHW', name=None, act=None"),
    "affine_grid": Spec("theta, out_shape, name=None", binds={"out_shape": "output_shape"}),
    "grid_sampler": Spec("x, grid, name=None"),
    "lrn": Spec("input, n=5, k=1.0, alpha=1e-4, beta=0.75, name=None, data_format='NCHW'", out=("Out",)),
    "maxout": Spec("x, groups, name=None, axis=1"),
    # -- whole tensors
    "allclose": Spec("input, other, rtol=1e-05, atol=1e-08, equal_nan=False, name=None"),
    "fill_constant_batch_size_like": Spec(
        "input, shape, dtype, value, input_dim_idx=0, output_dim_idx=0, force_cpu=False", binds={"force_cpu": ""}
    ),
    "gaussian_random_batch_size_like": Spec("input, shape, input_dim_idx=0, output_dim_idx=0, mean=0.0, std=1.0, seed=0, dtype='float32'"),
    "uniform_random_batch_size_like": Spec("input, shape, dtype='float32', input_dim_idx=0, output_dim_idx=0, min=-1.0, max=1.0, seed=0"),
}
