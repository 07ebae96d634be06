"""Made by `make stubs`: the operators by their types."""

from types import ModuleType

from graphad.ops import activation as activation
from graphad.ops import along as along
from graphad.ops import arrays as arrays
from graphad.ops import assignment as assignment
from graphad.ops import attention as attention
from graphad.ops import basic as basic
from graphad.ops import batch_normalization as batch_normalization
from graphad.ops import cells as cells
from graphad.ops import choice as choice
from graphad.ops import class_losses as class_losses
from graphad.ops import comparing as comparing
from graphad.ops import contraction as contraction
from graphad.ops import control as control
from graphad.ops import conv as conv
from graphad.ops import conv_transpose as conv_transpose
from graphad.ops import creation as creation
from graphad.ops import decay_updates as decay_updates
from graphad.ops import decompositions as decompositions
from graphad.ops import diagonals as diagonals
from graphad.ops import elementwise as elementwise
from graphad.ops import entropy as entropy
from graphad.ops import feeding as feeding
from graphad.ops import fused as fused
from graphad.ops import gamma as gamma
from graphad.ops import grids as grids
from graphad.ops import index as index
from graphad.ops import joining as joining
from graphad.ops import linalg as linalg
from graphad.ops import local_response as local_response
from graphad.ops import loss as loss
from graphad.ops import max_index as max_index
from graphad.ops import metric as metric
from graphad.ops import normalization as normalization
from graphad.ops import optimize as optimize
from graphad.ops import order as order
from graphad.ops import padding as padding
from graphad.ops import pair_losses as pair_losses
from graphad.ops import picking as picking
from graphad.ops import places as places
from graphad.ops import pool as pool
from graphad.ops import power as power
from graphad.ops import randoms as randoms
from graphad.ops import rearrange as rearrange
from graphad.ops import reduce as reduce
from graphad.ops import repeats as repeats
from graphad.ops import resize as resize
from graphad.ops import running as running
from graphad.ops import sampling as sampling
from graphad.ops import scan as scan
from graphad.ops import shapes as shapes
from graphad.ops import slicing as slicing
from graphad.ops import tapes as tapes
from graphad.ops import unary as unary
from graphad.ops.control import BranchDef as BranchDef
from graphad.ops.control import CallDef as CallDef
from graphad.ops.control import ControlDef as ControlDef
from graphad.ops.control import LoopDef as LoopDef
from graphad.ops.control import region_operator as region_operator
from graphad.ops.definition import GRAD as GRAD
from graphad.ops.definition import GradOpDef as GradOpDef
from graphad.ops.definition import OpDef as OpDef
from graphad.ops.definition import Slot as Slot
from graphad.ops.definition import did_you_mean as did_you_mean
from graphad.ops.definition import find as find
from graphad.ops.definition import grad_kernel as grad_kernel
from graphad.ops.definition import lookup as lookup
from graphad.ops.definition import operator as operator
from graphad.ops.double_gradients import DoubleGradOpDef as DoubleGradOpDef
from graphad.ops.sample import Sample as Sample
from graphad.ops.symbol import REGISTRY as REGISTRY
from graphad.ops.symbol import Symbol as Symbol

ROWS: tuple[ModuleType, ...]
__all__ = ['GRAD', 'REGISTRY', 'ROWS', 'BranchDef', 'CallDef', 'ControlDef', 'DoubleGradOpDef', 'GradOpDef', 'LoopDef', 'OpDef', 'Sample', 'Slot', 'Symbol', 'find', 'grad_kernel', 'lookup', 'operator', 'region_operator']

abs: OpDef
abs_grad: GradOpDef
abs_grad_grad: DoubleGradOpDef
accuracy: OpDef
acos: OpDef
acos_grad: GradOpDef
acosh: OpDef
acosh_grad: GradOpDef
adadelta: OpDef
adagrad: OpDef
adam: OpDef
adamax: OpDef
adamw: OpDef
addmm: OpDef
addmm_grad: GradOpDef
affine_channel: OpDef
affine_channel_grad: GradOpDef
affine_grid: OpDef
affine_grid_grad: GradOpDef
affine_grid_spread: OpDef
affine_grid_spread_grad: GradOpDef
allclose: OpDef
arg_max: OpDef
arg_min: OpDef
argsort: OpDef
argsort_grad: GradOpDef
asin: OpDef
asin_grad: GradOpDef
asinh: OpDef
asinh_grad: GradOpDef
assign: OpDef
assign_grad: GradOpDef
assign_value: OpDef
atan: OpDef
atan2: OpDef
atan2_grad: GradOpDef
atan_grad: GradOpDef
atanh: OpDef
atanh_grad: GradOpDef
batch_norm: OpDef
batch_norm_grad: GradOpDef
bce_loss: OpDef
bce_loss_grad: GradOpDef
bernoulli: OpDef
bicubic_interp: OpDef
bicubic_interp_grad: GradOpDef
bicubic_interp_v2: OpDef
bicubic_interp_v2_grad: GradOpDef
bilinear_interp: OpDef
bilinear_interp_grad: GradOpDef
bilinear_interp_v2: OpDef
bilinear_interp_v2_grad: GradOpDef
bitwise_and: OpDef
bitwise_not: OpDef
bitwise_or: OpDef
bitwise_xor: OpDef
bmm: OpDef
bmm_grad: GradOpDef
bpr_loss: OpDef
bpr_loss_grad: GradOpDef
brelu: OpDef
brelu_grad: GradOpDef
cast: OpDef
cast_grad: GradOpDef
ceil: OpDef
ceil_grad: GradOpDef
celu: OpDef
celu_grad: GradOpDef
celu_grad_grad: DoubleGradOpDef
cholesky: OpDef
cholesky_grad: GradOpDef
cholesky_solve: OpDef
cholesky_solve_grad: GradOpDef
clear_in_array: OpDef
clear_in_array_grad: GradOpDef
clip: OpDef
clip_by_norm: OpDef
clip_by_norm_grad: GradOpDef
clip_grad: GradOpDef
concat: OpDef
concat_grad: GradOpDef
conditional_block: BranchDef
conditional_block_grad: BranchDef
conv2d: OpDef
conv2d_backprop_filter: OpDef
conv2d_backprop_filter_grad: GradOpDef
conv2d_backprop_input: OpDef
conv2d_backprop_input_grad: GradOpDef
conv2d_grad: GradOpDef
conv2d_grad_grad: DoubleGradOpDef
conv2d_transpose: OpDef
conv2d_transpose_grad: GradOpDef
conv2d_transpose_grad_grad: DoubleGradOpDef
conv3d: OpDef
conv3d_backprop_filter: OpDef
conv3d_backprop_filter_grad: GradOpDef
conv3d_backprop_input: OpDef
conv3d_backprop_input_grad: GradOpDef
conv3d_grad: GradOpDef
conv3d_grad_grad: DoubleGradOpDef
conv3d_transpose: OpDef
conv3d_transpose_grad: GradOpDef
cos: OpDef
cos_grad: GradOpDef
cos_sim: OpDef
cos_sim_grad: GradOpDef
cosh: OpDef
cosh_grad: GradOpDef
create_array: OpDef
create_tape: OpDef
crop: OpDef
crop_grad: GradOpDef
crop_tensor: OpDef
crop_tensor_grad: GradOpDef
cross_entropy: OpDef
cross_entropy2: OpDef
cross_entropy2_grad: GradOpDef
cross_entropy_grad: GradOpDef
cumprod: OpDef
cumprod_grad: GradOpDef
cumsum: OpDef
cumsum_grad: GradOpDef
decayed_adagrad: OpDef
depthwise_conv2d: OpDef
depthwise_conv2d_grad: GradOpDef
depthwise_conv2d_grad_grad: DoubleGradOpDef
depthwise_conv2d_transpose: OpDef
depthwise_conv2d_transpose_grad: GradOpDef
diag: OpDef
diag_embed: OpDef
diag_embed_grad: GradOpDef
diag_grad: GradOpDef
diag_v2: OpDef
diag_v2_grad: GradOpDef
diagonal: OpDef
diagonal_grad: GradOpDef
digamma: OpDef
digamma_grad: GradOpDef
dot: OpDef
dot_grad: GradOpDef
dropout: OpDef
dropout_grad: GradOpDef
einsum: OpDef
einsum_grad: GradOpDef
elementwise_add: OpDef
elementwise_add_grad: GradOpDef
elementwise_add_grad_grad: DoubleGradOpDef
elementwise_div: OpDef
elementwise_div_grad: GradOpDef
elementwise_div_grad_grad: DoubleGradOpDef
elementwise_floordiv: OpDef
elementwise_floordiv_grad: GradOpDef
elementwise_fmax: OpDef
elementwise_fmax_grad: GradOpDef
elementwise_fmin: OpDef
elementwise_fmin_grad: GradOpDef
elementwise_heaviside: OpDef
elementwise_heaviside_grad: GradOpDef
elementwise_max: OpDef
elementwise_max_grad: GradOpDef
elementwise_min: OpDef
elementwise_min_grad: GradOpDef
elementwise_mod: OpDef
elementwise_mod_grad: GradOpDef
elementwise_mul: OpDef
elementwise_mul_grad: GradOpDef
elementwise_mul_grad_grad: DoubleGradOpDef
elementwise_pow: OpDef
elementwise_pow_grad: GradOpDef
elementwise_sub: OpDef
elementwise_sub_grad: GradOpDef
elementwise_sub_grad_grad: DoubleGradOpDef
elu: OpDef
elu_grad: GradOpDef
elu_grad_grad: DoubleGradOpDef
embedding_scatter: OpDef
embedding_scatter_grad: GradOpDef
equal: OpDef
equal_all: OpDef
erf: OpDef
erf_grad: GradOpDef
exp: OpDef
exp_grad: GradOpDef
expand: OpDef
expand_as_v2: OpDef
expand_as_v2_grad: GradOpDef
expand_grad: GradOpDef
expand_like: OpDef
expand_like_grad: GradOpDef
expand_v2: OpDef
expand_v2_grad: GradOpDef
expm1: OpDef
expm1_grad: GradOpDef
eye: OpDef
feed: OpDef
fetch: OpDef
fill_any_like: OpDef
fill_constant: OpDef
fill_constant_batch_size_like: OpDef
fill_constant_grad: GradOpDef
fill_zeros_like: OpDef
flash_attn: OpDef
flash_attn_grad: GradOpDef
flatten: OpDef
flatten2: OpDef
flatten2_grad: GradOpDef
flatten_contiguous_range: OpDef
flatten_contiguous_range_grad: GradOpDef
flatten_grad: GradOpDef
flip: OpDef
flip_grad: GradOpDef
floor: OpDef
floor_grad: GradOpDef
fold: OpDef
fold_grad: GradOpDef
fold_like: OpDef
fold_like_grad: GradOpDef
frobenius_norm: OpDef
frobenius_norm_grad: GradOpDef
ftrl: OpDef
fused_elementwise: CallDef
gather: OpDef
gather_grad: GradOpDef
gather_nd: OpDef
gather_nd_grad: GradOpDef
gaussian_random: OpDef
gelu: OpDef
gelu_grad: GradOpDef
greater_equal: OpDef
greater_than: OpDef
grid_sampler: OpDef
grid_sampler_grad: GradOpDef
group_norm: OpDef
group_norm_grad: GradOpDef
gru_unit: OpDef
gru_unit_grad: GradOpDef
hard_shrink: OpDef
hard_shrink_grad: GradOpDef
hard_sigmoid: OpDef
hard_sigmoid_grad: GradOpDef
hard_swish: OpDef
hard_swish_grad: GradOpDef
hinge_loss: OpDef
hinge_loss_grad: GradOpDef
huber_loss: OpDef
huber_loss_grad: GradOpDef
if_else: BranchDef
if_else_grad: BranchDef
increment: OpDef
increment_grad: GradOpDef
index_add: OpDef
index_add_grad: GradOpDef
index_sample: OpDef
index_sample_grad: GradOpDef
index_select: OpDef
index_select_grad: GradOpDef
instance_norm: OpDef
instance_norm_grad: GradOpDef
inverse: OpDef
inverse_grad: GradOpDef
isclose: OpDef
isfinite_v2: OpDef
isinf_v2: OpDef
isnan_v2: OpDef
kldiv_loss: OpDef
kldiv_loss_grad: GradOpDef
kron: OpDef
kron_grad: GradOpDef
label_smooth: OpDef
label_smooth_grad: GradOpDef
lamb: OpDef
last_of_each: OpDef
layer_norm: OpDef
layer_norm_grad: GradOpDef
leaky_relu: OpDef
leaky_relu_grad: GradOpDef
leaky_relu_grad_grad: DoubleGradOpDef
lerp: OpDef
lerp_grad: GradOpDef
less_equal: OpDef
less_than: OpDef
lgamma: OpDef
lgamma_grad: GradOpDef
linear_interp: OpDef
linear_interp_grad: GradOpDef
linear_interp_v2: OpDef
linear_interp_v2_grad: GradOpDef
linear_recurrence: OpDef
linear_recurrence_grad: GradOpDef
linspace: OpDef
linspace_grad: GradOpDef
lod_array_length: OpDef
log: OpDef
log10: OpDef
log10_grad: GradOpDef
log1p: OpDef
log1p_grad: GradOpDef
log2: OpDef
log2_grad: GradOpDef
log_grad: GradOpDef
log_grad_grad: DoubleGradOpDef
log_loss: OpDef
log_loss_grad: GradOpDef
log_softmax: OpDef
log_softmax_grad: GradOpDef
logcumsumexp: OpDef
logcumsumexp_grad: GradOpDef
logical_and: OpDef
logical_not: OpDef
logical_or: OpDef
logical_xor: OpDef
logsigmoid: OpDef
logsigmoid_grad: GradOpDef
logsumexp: OpDef
logsumexp_grad: GradOpDef
lookup_table: OpDef
lookup_table_grad: GradOpDef
lookup_table_v2: OpDef
lookup_table_v2_grad: GradOpDef
lrn: OpDef
lrn_grad: GradOpDef
lstm_unit: OpDef
lstm_unit_grad: GradOpDef
margin_rank_loss: OpDef
margin_rank_loss_grad: GradOpDef
masked_select: OpDef
masked_select_grad: GradOpDef
matmul: OpDef
matmul_grad: GradOpDef
matmul_grad_grad: DoubleGradOpDef
matmul_v2: OpDef
matmul_v2_grad: GradOpDef
matmul_v2_grad_grad: DoubleGradOpDef
matrix_power: OpDef
matrix_power_grad: GradOpDef
max_pool2d_with_index: OpDef
max_pool2d_with_index_grad: GradOpDef
max_pool3d_with_index: OpDef
max_pool3d_with_index_grad: GradOpDef
maxout: OpDef
maxout_grad: GradOpDef
maxout_index: OpDef
mean: OpDef
mean_grad: GradOpDef
merge_lod_tensor: OpDef
merge_lod_tensor_grad: GradOpDef
meshgrid: OpDef
meshgrid_grad: GradOpDef
minus: OpDef
minus_grad: GradOpDef
mish: OpDef
mish_grad: GradOpDef
modified_huber_loss: OpDef
modified_huber_loss_grad: GradOpDef
momentum: OpDef
mul: OpDef
mul_grad: GradOpDef
mul_grad_grad: DoubleGradOpDef
multiplex: OpDef
multiplex_grad: GradOpDef
mv: OpDef
mv_grad: GradOpDef
nearest_interp: OpDef
nearest_interp_grad: GradOpDef
nearest_interp_v2: OpDef
nearest_interp_v2_grad: GradOpDef
net: CallDef
net_grad: CallDef
nll_loss: OpDef
nll_loss_grad: GradOpDef
norm: OpDef
norm_grad: GradOpDef
not_equal: OpDef
one_hot: OpDef
one_hot_v2: OpDef
p_norm: OpDef
p_norm_grad: GradOpDef
pad: OpDef
pad2d: OpDef
pad2d_grad: GradOpDef
pad3d: OpDef
pad3d_grad: GradOpDef
pad_grad: GradOpDef
pixel_shuffle: OpDef
pixel_shuffle_grad: GradOpDef
pixel_unshuffle: OpDef
pixel_unshuffle_grad: GradOpDef
polygamma: OpDef
polygamma_grad: GradOpDef
pool2d: OpDef
pool2d_gather_max: OpDef
pool2d_gather_max_grad: GradOpDef
pool2d_grad: GradOpDef
pool2d_scatter_max: OpDef
pool2d_scatter_max_grad: GradOpDef
pool2d_spread: OpDef
pool2d_spread_grad: GradOpDef
pool3d: OpDef
pool3d_gather_max: OpDef
pool3d_gather_max_grad: GradOpDef
pool3d_grad: GradOpDef
pool3d_scatter_max: OpDef
pool3d_scatter_max_grad: GradOpDef
pool3d_spread: OpDef
pool3d_spread_grad: GradOpDef
pop_tape: OpDef
pop_tape_grad: GradOpDef
pow: OpDef
pow_grad: GradOpDef
prelu: OpDef
prelu_grad: GradOpDef
proximal_adagrad: OpDef
proximal_gd: OpDef
push_tape: OpDef
push_tape_grad: GradOpDef
put_along_axis: OpDef
put_along_axis_grad: GradOpDef
randint: OpDef
range: OpDef
rank_loss: OpDef
rank_loss_grad: GradOpDef
read_from_array: OpDef
read_from_array_grad: GradOpDef
reciprocal: OpDef
reciprocal_grad: GradOpDef
reduce_all: OpDef
reduce_amax: OpDef
reduce_amax_grad: GradOpDef
reduce_amin: OpDef
reduce_amin_grad: GradOpDef
reduce_any: OpDef
reduce_max: OpDef
reduce_max_grad: GradOpDef
reduce_mean: OpDef
reduce_mean_grad: GradOpDef
reduce_min: OpDef
reduce_min_grad: GradOpDef
reduce_prod: OpDef
reduce_prod_grad: GradOpDef
reduce_sum: OpDef
reduce_sum_grad: GradOpDef
relu: OpDef
relu6: OpDef
relu6_grad: GradOpDef
relu_grad: GradOpDef
relu_grad_grad: DoubleGradOpDef
resample: OpDef
resample_grad: GradOpDef
resample_spread: OpDef
resample_spread_grad: GradOpDef
reshape: OpDef
reshape2: OpDef
reshape2_grad: GradOpDef
reshape2_grad_grad: DoubleGradOpDef
reshape_grad: GradOpDef
reshape_like: OpDef
reshape_like_grad: GradOpDef
reverse: OpDef
reverse_grad: GradOpDef
rmsprop: OpDef
roll: OpDef
roll_grad: GradOpDef
round: OpDef
round_grad: GradOpDef
rsqrt: OpDef
rsqrt_grad: GradOpDef
rsqrt_grad_grad: DoubleGradOpDef
scale: OpDef
scale_grad: GradOpDef
scatter: OpDef
scatter_grad: GradOpDef
scatter_nd_add: OpDef
scatter_nd_add_grad: GradOpDef
select_input: OpDef
select_input_grad: GradOpDef
select_output: OpDef
select_output_grad: GradOpDef
selu: OpDef
selu_grad: GradOpDef
set_value: OpDef
set_value_grad: GradOpDef
sgd: OpDef
shape: OpDef
shuffle_channel: OpDef
shuffle_channel_grad: GradOpDef
sigmoid: OpDef
sigmoid_cross_entropy_with_logits: OpDef
sigmoid_cross_entropy_with_logits_grad: GradOpDef
sigmoid_focal_loss: OpDef
sigmoid_focal_loss_grad: GradOpDef
sigmoid_grad: GradOpDef
sigmoid_grad_grad: DoubleGradOpDef
sign: OpDef
sign_grad: GradOpDef
silu: OpDef
silu_grad: GradOpDef
sin: OpDef
sin_grad: GradOpDef
sinh: OpDef
sinh_grad: GradOpDef
size: OpDef
slice: OpDef
slice_grad: GradOpDef
smooth_l1_loss: OpDef
smooth_l1_loss_grad: GradOpDef
softmax: OpDef
softmax_grad: GradOpDef
softmax_with_cross_entropy: OpDef
softmax_with_cross_entropy_grad: GradOpDef
softplus: OpDef
softplus_grad: GradOpDef
softshrink: OpDef
softshrink_grad: GradOpDef
softsign: OpDef
softsign_grad: GradOpDef
solve: OpDef
solve_grad: GradOpDef
split: OpDef
split_grad: GradOpDef
split_like: OpDef
split_like_grad: GradOpDef
split_lod_tensor: OpDef
split_lod_tensor_grad: GradOpDef
sqrt: OpDef
sqrt_grad: GradOpDef
sqrt_grad_grad: DoubleGradOpDef
square: OpDef
square_error_cost: OpDef
square_error_cost_grad: GradOpDef
square_grad: GradOpDef
square_grad_grad: DoubleGradOpDef
squared_l2_norm: OpDef
squared_l2_norm_grad: GradOpDef
squeeze: OpDef
squeeze2: OpDef
squeeze2_grad: GradOpDef
squeeze_grad: GradOpDef
stack: OpDef
stack_grad: GradOpDef
stand_in: OpDef
stanh: OpDef
stanh_grad: GradOpDef
strided_slice: OpDef
strided_slice_grad: GradOpDef
sum: OpDef
sum_grad: GradOpDef
sum_like: OpDef
sum_like_grad: GradOpDef
swish: OpDef
swish_grad: GradOpDef
sync_batch_norm: OpDef
sync_batch_norm_grad: GradOpDef
take_along_axis: OpDef
take_along_axis_grad: GradOpDef
tan: OpDef
tan_grad: GradOpDef
tanh: OpDef
tanh_grad: GradOpDef
tanh_grad_grad: DoubleGradOpDef
tanh_shrink: OpDef
tanh_shrink_grad: GradOpDef
tape_has_more: OpDef
tensor_array_like: OpDef
tensor_array_like_grad: GradOpDef
tensor_array_to_tensor: OpDef
tensor_array_to_tensor_grad: GradOpDef
tensor_to_tensor_array: OpDef
tensor_to_tensor_array_grad: GradOpDef
thresholded_relu: OpDef
thresholded_relu_grad: GradOpDef
tile: OpDef
tile_grad: GradOpDef
top_k: OpDef
top_k_grad: GradOpDef
top_k_v2: OpDef
top_k_v2_grad: GradOpDef
trace: OpDef
trace_grad: GradOpDef
transpose: OpDef
transpose2: OpDef
transpose2_grad: GradOpDef
transpose_grad: GradOpDef
triangular_solve: OpDef
triangular_solve_grad: GradOpDef
tril_triu: OpDef
tril_triu_grad: GradOpDef
trilinear_interp: OpDef
trilinear_interp_grad: GradOpDef
trilinear_interp_v2: OpDef
trilinear_interp_v2_grad: GradOpDef
trunc: OpDef
trunc_grad: GradOpDef
truncated_gaussian_random: OpDef
unbind: OpDef
unbind_grad: GradOpDef
uncrop: OpDef
uncrop_grad: GradOpDef
undefined: OpDef
undiagonal: OpDef
undiagonal_grad: GradOpDef
unfold: OpDef
unfold_grad: GradOpDef
ungather: OpDef
ungather_grad: GradOpDef
uniform_random: OpDef
unique: OpDef
unpad2d: OpDef
unpad2d_grad: GradOpDef
unpad3d: OpDef
unpad3d_grad: GradOpDef
unslice: OpDef
unslice_grad: GradOpDef
unsqueeze: OpDef
unsqueeze2: OpDef
unsqueeze2_grad: GradOpDef
unsqueeze_grad: GradOpDef
unstack: OpDef
unstack_grad: GradOpDef
untile: OpDef
untile_grad: GradOpDef
where: OpDef
where_grad: GradOpDef
where_index: OpDef
while_grad: LoopDef
window_sum: OpDef
window_sum_grad: GradOpDef
write_to_array: OpDef
write_to_array_grad: GradOpDef
