"""Calls as the examples of Fluid's, paddle.static.nn's and numpy's documentation spell them, written without a look at graphad's code."""

import numpy as np

from graphad import layers as L
from tests.documented_call import MASK, A, B, Call, K, M, P
from tests.documented_fluid import constant, normed

IMAGE6 = np.random.default_rng(7).normal(size=(2, 4, 6, 6))
LAST6 = IMAGE6.transpose(0, 2, 3, 1).copy()
WHOLE = np.array([[3, 1, 2], [5, 4, 6]])

SPELLINGS = [
    Call("clip(x,min=0.0)", lambda x: L.clip(x, min=0.0), lambda x: np.maximum(x, 0.0), (A,)),
    Call("clip(x,max=0.25)", lambda x: L.clip(x, max=0.25), lambda x: np.minimum(x, 0.25), (A,)),
    Call("topk(x,k=2,axis=1)[0]", lambda x: L.topk(x, k=2, axis=1)[0], lambda x: -np.sort(-x, 1)[:, :2], (A,)),
    Call("topk(x,1,0,largest=False)[0]", lambda x: L.topk(x, 1, 0, largest=False)[0], lambda x: np.sort(x, 0)[:1], (A,)),
    Call("einsum('ijk,kl->ijl',x,y)", lambda x, y: L.einsum("ijk,kl->ijl", x, y), lambda x, y: x @ y, (A, K)),
    Call("einsum([x,y],equation='ij,ij->')", lambda x, y: L.einsum([x, y], equation="ij,ij->"), lambda x, y: (x * y).sum(), (M, P)),
    Call("numel(x)", lambda x: L.numel(x), lambda x: np.array(x.size), (A,), slope=False),
    Call("unique(x)", lambda x: L.unique(x), lambda x: [np.array([5, 2, 9]), np.array([0, 1, 0, 2])], (np.array([5, 2, 5, 9]),)),
    Call(
        "unique(x,return_index=True,return_counts=True)",
        lambda x: L.unique(x, return_index=True, return_counts=True),
        lambda x: np.unique(x, return_index=True, return_counts=True),
        (np.array([5, 2, 5, 9]),),
    ),
    Call("unique(x,axis=0)", lambda x: L.unique(x, axis=0), lambda x: np.unique(x, axis=0), (np.array([[2, 1], [0, 3], [2, 1]]),)),
    Call(
        "x*assign([1.0,2.0,3.0,4.0])",
        lambda x: L.elementwise_mul(x, L.assign([1.0, 2.0, 3.0, 4.0]).astype("float64")),
        lambda x: x * [1, 2, 3, 4],
        (A,),
    ),
    Call("reduce_sum(x,dim=[1,2])", lambda x: L.reduce_sum(x, dim=[1, 2]), lambda x: x.sum((1, 2)), (A,)),
    Call("reduce_sum(x,dim=-1)", lambda x: L.reduce_sum(x, dim=-1), lambda x: x.sum(-1), (A,)),
    Call(
        "reduce_prod(x,dim=[0],keep_dim=True)", lambda x: L.reduce_prod(x, dim=[0], keep_dim=True), lambda x: x.prod(0, keepdims=True), (A,)
    ),
    Call("expand(x,expand_times=[1,2,2])", lambda x: L.expand(x, expand_times=[1, 2, 2]), lambda x: np.tile(x, (1, 2, 2)), (A,)),
    Call(
        "slice(x,axes=[0,1,2],starts=[-3,0,2],ends=[3,2,4])",
        lambda x: L.slice(x, axes=[0, 1, 2], starts=[-3, 0, 2], ends=[3, 2, 4]),
        lambda x: x[-3:3, 0:2, 2:4],
        (A,),
    ),
    Call(
        "strided_slice(x,axes=[0,1,2],starts=[1,0,2],ends=[2,3,4],strides=[1,1,2])",
        lambda x: L.strided_slice(x, axes=[0, 1, 2], starts=[1, 0, 2], ends=[2, 3, 4], strides=[1, 1, 2]),
        lambda x: x[1:2, 0:3, 2:4:2],
        (A,),
    ),
    Call(
        "strided_slice(x,axes=[2],starts=[3],ends=[0],strides=[-1])",
        lambda x: L.strided_slice(x, axes=[2], starts=[3], ends=[0], strides=[-1]),
        lambda x: x[:, :, 3:0:-1],
        (A,),
    ),
    Call("unsqueeze(x,axes=[1,2])", lambda x: L.unsqueeze(x, axes=[1, 2]), lambda x: x[:, None, None], (A,)),
    Call("unsqueeze(x,axes=1)", lambda x: L.unsqueeze(x, axes=1), lambda x: x[:, None], (A,)),
    Call("squeeze(unsqueeze(x,[1]),axes=[1])", lambda x: L.squeeze(L.unsqueeze(x, [1]), axes=[1]), lambda x: x, (A,)),
    Call(
        "stack([x,y],axis=0)",
        lambda x, y: L.stack([x, y], axis=0),
        lambda x, y: np.stack([x, y]),
        (
            A,
            B,
        ),
    ),
    Call(
        "stack([x,y],axis=-1)",
        lambda x, y: L.stack([x, y], axis=-1),
        lambda x, y: np.stack([x, y], -1),
        (
            A,
            B,
        ),
    ),
    Call("topk(x,k=2)", lambda x: L.topk(x, k=2), lambda x: [-np.sort(-x, -1)[..., :2], np.argsort(-x, -1)[..., :2]], (M,), slope=False),
    Call("topk(input=x,k=2,name='t')[0]", lambda x: L.topk(input=x, k=2, name="t")[0], lambda x: -np.sort(-x, -1)[..., :2], (M,)),
    Call("argsort(x,axis=0)", lambda x: L.argsort(x, axis=0), lambda x: [np.sort(x, 0), np.argsort(x, 0)], (M,), slope=False),
    Call(
        "argsort(input=x,axis=-1,descending=True)[0]",
        lambda x: L.argsort(input=x, axis=-1, descending=True)[0],
        lambda x: -np.sort(-x, -1),
        (M,),
    ),
    Call("argmax(x=x,axis=-1)", lambda x: L.argmax(x=x, axis=-1), lambda x: x.argmax(-1), (M,), slope=False),
    Call(
        "one_hot(input=x,depth=4)", lambda x: L.one_hot(input=x, depth=4), lambda x: np.eye(4)[x[:, 0]], (np.array([[1], [1], [3], [0]]),)
    ),
    Call(
        'label_smooth(label=x,epsilon=0.1,dtype="float32")',
        lambda x: L.label_smooth(label=x, epsilon=0.1, dtype="float32"),
        lambda x: 0.9 * x + 0.1 / 4,
        (P,),
    ),
    Call(
        "smooth_l1(x=x,y=y)",
        lambda x, y: L.smooth_l1(x=x, y=y),
        lambda x, y: np.where(abs(x - y) < 1, 0.5 * (x - y) ** 2, abs(x - y) - 0.5).sum(1, keepdims=True),
        (
            M,
            P,
        ),
    ),
    Call(
        "log_loss(input=x,label=y)",
        lambda x, y: L.log_loss(input=x, label=y),
        lambda x, y: -y * np.log(x + 1e-4) - (1 - y) * np.log(1 - x + 1e-4),
        (
            np.array([[0.2], [0.7]]),
            np.array([[1.0], [0.0]]),
        ),
    ),
    Call("sequence_mask(x,maxlen=5)", lambda x: L.sequence_mask(x, maxlen=5), lambda x: np.arange(5) < x[:, None], (np.array([1, 3]),)),
    Call(
        "sequence_mask(x,maxlen=5,dtype='float32')",
        lambda x: L.sequence_mask(x, maxlen=5, dtype="float32"),
        lambda x: np.arange(5) < x[:, None],
        (np.array([1, 3]),),
    ),
    Call(
        "pad(x=x,paddings=[0,1,1,3],pad_value=2.0)",
        lambda x: L.pad(x=x, paddings=[0, 1, 1, 3], pad_value=2.0),
        lambda x: np.pad(x, ((0, 1), (1, 3)), constant_values=2.0),
        (M,),
    ),
    Call(
        "pad2d(input=x,paddings=[1,2,3,4],mode='reflect')",
        lambda x: L.pad2d(input=x, paddings=[1, 2, 3, 4], mode="reflect"),
        lambda x: np.pad(x, ((0, 0), (0, 0), (1, 2), (3, 4)), "reflect"),
        (IMAGE6,),
    ),
    Call("crop_tensor(x,shape=[2,2],offsets=[0,1])", lambda x: L.crop_tensor(x, shape=[2, 2], offsets=[0, 1]), lambda x: x[0:2, 1:3], (M,)),
    Call(
        "crop_tensor(x,shape=[-1,2],offsets=[1,1])", lambda x: L.crop_tensor(x, shape=[-1, 2], offsets=[1, 1]), lambda x: x[1:, 1:3], (M,)
    ),
    Call(
        "elementwise_add(x,y,axis=1)",
        lambda x, y: L.elementwise_add(x, y, axis=1),
        lambda x, y: x + y[:, None],
        (
            A,
            M[:, 0].copy(),
        ),
    ),
    Call(
        "elementwise_add(x,y,axis=0)",
        lambda x, y: L.elementwise_add(x, y, axis=0),
        lambda x, y: x + y[:, :, None],
        (
            A,
            A[:, :, 0].copy(),
        ),
    ),
    Call(
        "elementwise_sub(x,y,act='relu',name='e')",
        lambda x, y: L.elementwise_sub(x, y, act="relu", name="e"),
        lambda x, y: np.maximum(x - y, 0),
        (
            A,
            B,
        ),
    ),
    Call(
        "fill_constant(shape=[2,1],value=5,dtype='int64',force_cpu=True)",
        lambda: L.fill_constant(shape=[2, 1], value=5, dtype="int64", force_cpu=True),
        lambda: np.full((2, 1), 5),
        (),
    ),
    Call(
        "fill_constant(shape=[1,x],value=2.0,dtype='float32')",
        lambda x: L.fill_constant(shape=[1, x], value=2.0, dtype="float32"),
        lambda x: np.full((1, 3), 2.0),
        (np.array([3], "int32"),),
    ),
    Call("cast(x,'int32')", lambda x: L.cast(x, "int32"), lambda x: x.astype(int), (A,), slope=False),
    Call("cast(x=x,dtype=np.float32)", lambda x: L.cast(x=x, dtype=np.float32), lambda x: x.astype("float32"), (A,), slope=False),
    Call(
        "matmul(x,y,transpose_x=True)",
        lambda x, y: L.matmul(x, y, transpose_x=True),
        lambda x, y: x.T @ y,
        (
            M,
            P,
        ),
    ),
    Call(
        "matmul(x,y)",
        lambda x, y: L.matmul(x, y),
        lambda x, y: x @ y,
        (
            M,
            M[0].copy(),
        ),
    ),
    Call(
        "matmul(x,y,False,True,2.0)",
        lambda x, y: L.matmul(x, y, False, True, 2.0),
        lambda x, y: 2 * x @ y.T,
        (
            M,
            P,
        ),
    ),
    Call(
        "mul(x,y,x_num_col_dims=2,y_num_col_dims=1)",
        lambda x, y: L.mul(x, y, x_num_col_dims=2, y_num_col_dims=1),
        lambda x, y: x @ y,
        (
            A,
            K,
        ),
    ),
    Call(
        "sums(input=[x,y])",
        lambda x, y: L.sums(input=[x, y]),
        lambda x, y: x + y,
        (
            A,
            B,
        ),
    ),
    Call(
        "sum([x,y])",
        lambda x, y: L.sum([x, y]),
        lambda x, y: x + y,
        (
            A,
            B,
        ),
    ),
    Call("where(x)", lambda x: L.where(x), lambda x: np.argwhere(x), (MASK,)),
    Call(
        "gather(x,i)",
        lambda x, i: L.gather(x, i),
        lambda x, i: x[i],
        (
            M,
            np.array([2, 0], "int32"),
        ),
    ),
    Call(
        "gather_nd(x,i)",
        lambda x, i: L.gather_nd(x, i),
        lambda x, i: x[i[:, 0], i[:, 1]],
        (
            A,
            np.array([[0, 1], [1, 2]]),
        ),
    ),
    Call(
        "scatter_nd_add(x,i,u)",
        lambda x, i, u: L.scatter_nd_add(x, i, u),
        lambda x, i, u: x + np.array([u[0], u[0] * 0, u[1]]),
        (
            M,
            np.array([[0], [2]]),
            P[:2].copy(),
        ),
    ),
    Call("diag(np.arange(3,6).astype('int32'))", lambda: L.diag(np.arange(3, 6).astype("int32")), lambda: np.diag([3, 4, 5]), ()),
    Call(
        "eye(2,dtype='int32',batch_shape=[3])", lambda: L.eye(2, dtype="int32", batch_shape=[3]), lambda: np.tile(np.eye(2), (3, 1, 1)), ()
    ),
    Call("linspace(0,10,5,'float32')", lambda: L.linspace(0, 10, 5, "float32"), lambda: np.linspace(0, 10, 5), ()),
    Call("reverse(x,[0,1])", lambda x: L.reverse(x, [0, 1]), lambda x: x[::-1, ::-1], (A,)),
    Call(
        "multiplex(inputs=[x,y],index=i)",
        lambda x, y, i: L.multiplex(inputs=[x, y], index=i),
        lambda x, y, i: np.stack([x[0], y[1], x[2]]),
        (
            M,
            P,
            np.array([[0], [1], [0]], "int32"),
        ),
    ),
    Call(
        "fc(input=x,size=2,num_flatten_dims=2,param_attr=constant(.5),bias_attr=constant(1.),act='tanh')",
        lambda x: L.fc(input=x, size=2, num_flatten_dims=2, param_attr=constant(0.5), bias_attr=constant(1.0), act="tanh"),
        lambda x: np.tanh(np.repeat(x.sum(-1, keepdims=True) * 0.5 + 1, 2, -1)),
        (A,),
    ),
    Call(
        "fc(input=[x,y],size=2,param_attr=[constant(.5),constant(2.)])",
        lambda x, y: L.fc(input=[x, y], size=2, param_attr=[constant(0.5), constant(2.0)]),
        lambda x, y: np.repeat(x.sum(1, keepdims=True) * 0.5 + 2 * y.sum(1, keepdims=True), 2, 1),
        (
            M,
            P,
        ),
    ),
    Call(
        "fc(x,size=2,weight_attr=constant(.5),activation='relu')",
        lambda x: L.fc(x, size=2, weight_attr=constant(0.5), activation="relu"),  # type: ignore[call-arg]
        lambda x: np.maximum(np.repeat(x.sum(1, keepdims=True) * 0.5, 2, 1), 0),
        (M,),
    ),
    Call(
        'conv2d(input=x,num_filters=2,filter_size=3,padding="SAME",param_attr=constant(.5),bias_attr=False)',
        lambda x: L.conv2d(input=x, num_filters=2, filter_size=3, padding="SAME", param_attr=constant(0.5), bias_attr=False),
        lambda x: np.repeat(
            np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3)).sum((1, 4, 5))[:, None]
            * 0.5,
            2,
            1,
        ),
        (IMAGE6,),
    ),
    Call(
        "pool2d(input=x,pool_size=2,pool_type='max',pool_stride=1,global_pooling=False)",
        lambda x: L.pool2d(input=x, pool_size=2, pool_type="max", pool_stride=1, global_pooling=False),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3)).max((4, 5)),
        (IMAGE6,),
    ),
    Call(
        "pool2d(x,pool_type='avg',global_pooling=True)",
        lambda x: L.pool2d(x, pool_type="avg", global_pooling=True),
        lambda x: x.mean((2, 3), keepdims=True),
        (IMAGE6,),
    ),
    Call(
        "adaptive_pool2d(input=x,pool_size=[3,3],pool_type='avg')",
        lambda x: L.adaptive_pool2d(input=x, pool_size=[3, 3], pool_type="avg"),
        lambda x: x.reshape(2, 4, 3, 2, 3, 2).mean((3, 5)),
        (IMAGE6,),
    ),
    Call("dropout(x,dropout_prob=0.5,is_test=True)", lambda x: L.dropout(x, dropout_prob=0.5, is_test=True), lambda x: x * 0.5, (A,)),
    Call("dropout(x,0.0)", lambda x: L.dropout(x, 0.0), lambda x: x, (A,)),
    Call(
        "image_resize(x,out_shape=[12,12],resample='NEAREST',align_corners=False)",
        lambda x: L.image_resize(x, out_shape=[12, 12], resample="NEAREST", align_corners=False),
        lambda x: x.repeat(2, 2).repeat(2, 3),
        (IMAGE6,),
    ),
    Call(
        "resize_nearest(x,scale=2.0,align_corners=False)",
        lambda x: L.resize_nearest(x, scale=2.0, align_corners=False),
        lambda x: x.repeat(2, 2).repeat(2, 3),
        (IMAGE6,),
    ),
    Call("softmax(x,axis=1)", lambda x: L.softmax(x, axis=1), lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True), (A,)),
    Call("cumsum(x,axis=0,exclusive=True)", lambda x: L.cumsum(x, axis=0, exclusive=True), lambda x: np.cumsum(x, 0) - x, (M,)),
    Call("cumsum(x,axis=1,reverse=True)", lambda x: L.cumsum(x, axis=1, reverse=True), lambda x: np.cumsum(x[:, ::-1], 1)[:, ::-1], (M,)),
    Call(
        "less_than(x=x,y=y)",
        lambda x, y: L.less_than(x=x, y=y),
        lambda x, y: x < y,
        (
            A,
            B,
        ),
        slope=False,
    ),
    Call("logical_and(x>0,x<1)", lambda x: L.logical_and(x > 0, x < 1), lambda x: (x > 0) & (x < 1), (A,), slope=False),
    Call("range(0,10,2,'int32')", lambda: L.range(0, 10, 2, "int32"), lambda: np.arange(0, 10, 2), ()),
    Call("roll(x,shifts=1,dims=0)", lambda x: L.roll(x, shifts=1, dims=0), lambda x: np.roll(x, 1, 0), (M,)),
    Call("roll(x,shifts=1)", lambda x: L.roll(x, shifts=1), lambda x: np.roll(x, 1), (M,)),
    Call(
        "meshgrid([x,y])",
        lambda x, y: L.meshgrid([x, y]),
        lambda x, y: np.meshgrid(x, y, indexing="ij"),
        (
            M[0].copy(),
            P[0].copy(),
        ),
    ),
    Call("maxout(x,groups=2)", lambda x: L.maxout(x, groups=2), lambda x: x.reshape(2, 2, 2, 6, 6).max(2), (IMAGE6,)),
    Call(
        "pixel_shuffle(x=x,upscale_factor=2)",
        lambda x: L.pixel_shuffle(x=x, upscale_factor=2),
        lambda x: x.reshape(2, 1, 2, 2, 6, 6).transpose(0, 1, 4, 2, 5, 3).reshape(2, 1, 12, 12),
        (IMAGE6,),
    ),
    Call(
        "hard_sigmoid(x,slope=0.3,offset=0.8)",
        lambda x: L.hard_sigmoid(x, slope=0.3, offset=0.8),
        lambda x: np.clip(0.3 * x + 0.8, 0, 1),
        (A,),
    ),
    Call(
        "elementwise_mod(x,fill_constant([2,3],'int64',4))",
        lambda x: L.elementwise_mod(x, L.fill_constant([2, 3], "int64", 4)),
        lambda x: x % 4,
        (WHOLE,),
    ),
    Call("clip(x=x,min=-.5,max=.5)", lambda x: L.clip(x=x, min=-0.5, max=0.5), lambda x: x.clip(-0.5, 0.5), (A,)),
    Call(
        "batch_norm(input=x)",
        lambda x: L.batch_norm(input=x),
        lambda x: (x - x.mean((0, 2, 3), keepdims=True)) / np.sqrt(x.var((0, 2, 3), keepdims=True) + 1e-5),
        (IMAGE6,),
    ),
    Call("batch_norm(x,is_test=True,epsilon=0.0)", lambda x: L.batch_norm(x, is_test=True, epsilon=0.0), lambda x: x, (IMAGE6,)),
    Call(
        "layer_norm(input=x,begin_norm_axis=1)",
        lambda x: L.layer_norm(input=x, begin_norm_axis=1),
        lambda x: (x - x.mean((1, 2, 3), keepdims=True)) / np.sqrt(x.var((1, 2, 3), keepdims=True) + 1e-5),
        (IMAGE6,),
    ),
    Call("l2_normalize(x=x,axis=0)", lambda x: L.l2_normalize(x=x, axis=0), lambda x: x / np.sqrt((x**2).sum(0, keepdims=True)), (M,)),
    Call(
        "embedding(i,size=[5,3],param_attr=constant(2.),padding_idx=1)",
        lambda i: L.embedding(i, size=[5, 3], param_attr=constant(2.0), padding_idx=1),
        lambda i: np.where(i[..., None] == 1, 0, 2.0) * np.ones(3),
        (np.array([[1, 2], [3, 1]]),),
    ),
    Call("transpose(x,perm=[1,0,2])", lambda x: L.transpose(x, perm=[1, 0, 2]), lambda x: x.transpose(1, 0, 2), (A,)),
    Call(
        "concat(input=[x,y],axis=-1)",
        lambda x, y: L.concat(input=[x, y], axis=-1),
        lambda x, y: np.concatenate([x, y], -1),
        (
            A,
            B,
        ),
    ),
    Call(
        "split(x,num_or_sections=[1,-1],dim=1)", lambda x: L.split(x, num_or_sections=[1, -1], dim=1), lambda x: np.split(x, [1], 1), (A,)
    ),
    Call("unstack(x,axis=1)", lambda x: L.unstack(x, axis=1), lambda x: [x[:, i] for i in range(3)], (A,)),
    Call("flatten(x=x,axis=2)", lambda x: L.flatten(x=x, axis=2), lambda x: x.reshape(6, 4), (A,)),
    Call("reshape(x=x,shape=[-1,0,2,2])", lambda x: L.reshape(x=x, shape=[-1, 0, 2, 2]), lambda x: x.reshape(2, 3, 2, 2), (A,)),
    Call(
        "scale(x,scale=2.0,bias=1.0,bias_after_scale=False)",
        lambda x: L.scale(x, scale=2.0, bias=1.0, bias_after_scale=False),
        lambda x: 2 * (x + 1),
        (A,),
    ),
    Call(
        "pow(x,factor=fill_constant([1],'float64',2.0))",
        lambda x: L.pow(x, factor=L.fill_constant([1], "float64", 2.0)),
        lambda x: x**2,
        (A,),
    ),
    Call(
        "prelu(x,'channel',param_attr=constant(.25))",
        lambda x: L.prelu(x, "channel", param_attr=constant(0.25)),
        lambda x: np.where(x > 0, x, 0.25 * x),
        (IMAGE6,),
    ),
    Call(
        "softmax_with_cross_entropy(logits=x,label=z)",
        lambda x, z: L.softmax_with_cross_entropy(logits=x, label=z),
        lambda x, z: -np.take_along_axis(x - np.log(np.exp(x).sum(1, keepdims=True)), z, 1),
        (
            M,
            np.array([[1], [0], [3]]),
        ),
    ),
    Call(
        "softmax_with_cross_entropy(x,z,return_softmax=True)[1]",
        lambda x, z: L.softmax_with_cross_entropy(x, z, return_softmax=True)[1],
        lambda x, z: np.exp(x) / np.exp(x).sum(1, keepdims=True),
        (
            M,
            np.array([[1], [0], [3]]),
        ),
    ),
    Call(
        "softmax_with_cross_entropy(x,z,soft_label=True)",
        lambda x, z: L.softmax_with_cross_entropy(x, z, soft_label=True),
        lambda x, z: -(z * (x - np.log(np.exp(x).sum(1, keepdims=True)))).sum(1, keepdims=True),
        (
            M,
            P,
        ),
    ),
    Call(
        "cross_entropy(input=x,label=z)",
        lambda x, z: L.cross_entropy(input=x, label=z),
        lambda x, z: -np.log(np.take_along_axis(x, z, 1)),
        (
            P / 3,
            np.array([[1], [0], [3]]),
        ),
    ),
    Call(
        "accuracy(input=x,label=z,k=1)",
        lambda x, z: L.accuracy(input=x, label=z, k=1),
        lambda x, z: (x.argmax(1) == z[:, 0]).mean(),
        (
            M,
            np.array([[1], [0], [3]]),
        ),
        slope=False,
    ),
    Call(
        "kldiv_loss(x=x,target=y,reduction='batchmean')",
        lambda x, y: L.kldiv_loss(x=x, target=y, reduction="batchmean"),
        lambda x, y: (y * (np.log(y) - x)).sum() / 3,
        (
            M,
            P,
        ),
    ),
    Call(
        "huber_loss(input=x,label=y,delta=1.0)",
        lambda x, y: L.huber_loss(input=x, label=y, delta=1.0),
        lambda x, y: np.where(abs(x - y) <= 1, 0.5 * (x - y) ** 2, abs(x - y) - 0.5),
        (
            M,
            P,
        ),
    ),
    Call(
        "sigmoid_cross_entropy_with_logits(x=x,label=y,ignore_index=-1,normalize=True)",
        lambda x, y: L.sigmoid_cross_entropy_with_logits(x=x, label=y, ignore_index=-1, normalize=True),
        lambda x, y: (np.maximum(x, 0) - x * y + np.log1p(np.exp(-abs(x)))) / 12,
        (
            M,
            P,
        ),
    ),
    Call("x.swapaxes(0,1)", lambda x: x.swapaxes(0, 1), lambda x: x.swapaxes(0, 1), (A,)),
    Call("x.repeat(2,axis=1)", lambda x: x.repeat(2, axis=1), lambda x: x.repeat(2, axis=1), (A,)),
    Call("x.cumprod(1)", lambda x: x.cumprod(1), lambda x: x.cumprod(1), (A,)),
    Call("x.argsort(0)", lambda x: x.argsort(0), lambda x: x.argsort(0), (A,), slope=False),
    Call("x.diagonal()", lambda x: x.diagonal(), lambda x: x.diagonal(), (A,)),
    Call("x.trace()", lambda x: x.trace(), lambda x: x.trace(), (A,)),
    Call("x.max()-x.min()", lambda x: x.max() - x.min(), lambda x: np.ptp(x), (A,)),
    Call("x.nonzero()", lambda x: x.nonzero(), lambda x: x.nonzero(), (MASK,)),
    Call("x.take([0,2],axis=1)", lambda x: x.take([0, 2], axis=1), lambda x: x.take([0, 2], axis=1), (A,)),
    Call("x.copy()", lambda x: x.copy(), lambda x: x.copy(), (A,)),
    Call("x.round(2)", lambda x: x.round(2), lambda x: x.round(2), (A,)),
    Call("x.clip(min=0.)", lambda x: x.clip(min=0.0), lambda x: x.clip(min=0.0), (A,)),
    Call("x.std(axis=1,ddof=1)", lambda x: x.std(axis=1, ddof=1), lambda x: x.std(axis=1, ddof=1), (A,)),
    Call("x.var(axis=(0,1))", lambda x: x.var(axis=(0, 1)), lambda x: x.var(axis=(0, 1)), (A,)),
    Call(
        "divmod(x,fill_constant([1],'float64',0.7))",
        lambda x: divmod(x, L.fill_constant([1], "float64", 0.7)),
        lambda x: divmod(x, 0.7),
        (P,),
    ),
    Call("divmod(x,2)", lambda x: divmod(x, 2), lambda x: divmod(x, 2), (WHOLE,)),
    Call("2.0**x", lambda x: 2.0**x, lambda x: 2.0**x, (A,)),
    Call("x>>1", lambda x: x >> 1, lambda x: x >> 1, (WHOLE,)),
    Call("x<<1", lambda x: x << 1, lambda x: x << 1, (WHOLE,)),
    Call("x[[1,0]]", lambda x: x[[1, 0]], lambda x: x[[1, 0]], (A,)),
    Call("x[[0,1],[2,0]]", lambda x: x[[0, 1], [2, 0]], lambda x: x[[0, 1], [2, 0]], (A,)),
    Call(
        "x[:,m]",
        lambda x, m: x[:, m],
        lambda x, m: x[:, m],
        (
            A,
            MASK,
        ),
    ),
    Call("x[x>0]", lambda x: x[x > 0], lambda x: x[x > 0], (A,)),
    Call("x[...,::-2]", lambda x: x[..., ::-2], lambda x: x[..., ::-2], (A,)),
    Call("x*x.ndim", lambda x: x * x.ndim, lambda x: x * x.ndim, (A,)),
    Call("np.ones((2,3))@x", lambda x: np.ones((2, 3)) @ x, lambda x: np.ones((2, 3)) @ x, (M,)),
    Call("np.ones(4)+x", lambda x: np.ones(4) + x, lambda x: np.ones(4) + x, (M,)),
    Call(
        "x.mean(axis=(0,2),keepdims=True)", lambda x: x.mean(axis=(0, 2), keepdims=True), lambda x: x.mean(axis=(0, 2), keepdims=True), (A,)
    ),
    Call("(x>-10).all()", lambda x: (x > -10).all(), lambda x: (x > -10).all(), (A,), slope=False),
    Call("x.prod()", lambda x: x.prod(), lambda x: x.prod(), (A,)),
    Call("x.reshape((4,-1))", lambda x: x.reshape((4, -1)), lambda x: x.reshape((4, -1)), (A,)),
    Call("x.sort(axis=0)", lambda x: x.sort(axis=0), lambda x: np.sort(x, 0), (M,)),
    Call("x==x", lambda x: x == x, lambda x: x == x, (M,), slope=False),
    Call("x//2", lambda x: x // 2, lambda x: x // 2, (WHOLE,)),
    Call("x.astype(float)", lambda x: x.astype(float), lambda x: x.astype(float), (WHOLE,), slope=False),
    Call("x.astype(int)", lambda x: x.astype(int), lambda x: x.astype(int), (A,), slope=False),
    Call("x.astype(bool)", lambda x: x.astype(bool), lambda x: x.astype(bool), (WHOLE,), slope=False),
    Call("x.cumsum()", lambda x: x.cumsum(), lambda x: x.cumsum(), (A,)),
    Call("x.min(axis=-1)", lambda x: x.min(axis=-1), lambda x: x.min(axis=-1), (A,)),
    Call("x.conj()", lambda x: x.conj(), lambda x: x.conj(), (A,)),
    Call("x[None].squeeze(0)", lambda x: x[None].squeeze(0), lambda x: x, (A,)),
    Call("(x*x).sqrt()", lambda x: (x * x).sqrt(), lambda x: abs(x), (A,)),
    Call("x*len(x)", lambda x: x * len(x), lambda x: x * len(x), (A,)),
    Call("[r for r in x]", lambda x: [r for r in x], lambda x: [r for r in x], (A,)),
    Call("x.mT", lambda x: x.mT, lambda x: x.mT, (A,)),
    # -- channels last, and Paddle 2's words
    Call(
        "affine_channel(x, s, b, data_layout='NHWC')",
        lambda x, s, b: L.affine_channel(x, s, b, data_layout="NHWC"),
        lambda x, s, b: x * s + b,
        (LAST6, M[0], M[1]),
    ),
    Call("batch_norm(x, data_format='NHWC')", lambda x: L.batch_norm(x, data_format="NHWC"), lambda x: normed(x, (0, 1, 2)), (LAST6,)),  # type: ignore[call-arg]
    Call("instance_norm(x, data_format='NHWC')", lambda x: L.instance_norm(x, data_format="NHWC"), lambda x: normed(x, (1, 2)), (LAST6,)),
    Call("group_norm(x, 4, data_format='NHWC')", lambda x: L.group_norm(x, 4, data_format="NHWC"), lambda x: normed(x, (1, 2)), (LAST6,)),  # type: ignore[call-arg]
    Call(
        "prelu(x, mode='channel', data_format='NHWC')",
        lambda x: L.prelu(x, mode="channel", param_attr=constant(0.5), data_format="NHWC"),
        lambda x: np.where(x > 0, x, 0.5 * x),
        (LAST6,),
    ),
    Call("mean(x, axis=1)", lambda x: L.mean(x, axis=1), lambda x: x.mean(1), (A,)),
    Call(
        "mean(x, axis=[0, 2], keepdim=True)", lambda x: L.mean(x, axis=[0, 2], keepdim=True), lambda x: x.mean((0, 2), keepdims=True), (A,)
    ),
    Call("flatten(x, start_axis=1, stop_axis=2)", lambda x: L.flatten(x, start_axis=1, stop_axis=2), lambda x: x.reshape(2, 12), (A,)),
    Call(
        "dropout(x, p=0.5, is_test=True, mode='upscale_in_train')",
        lambda x: L.dropout(x, p=0.5, is_test=True, mode="upscale_in_train"),
        lambda x: x,
        (A,),
    ),
]
