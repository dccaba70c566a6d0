"""A use of each function of `keras.ops` that a spec can name, from the inputs of `test_branches`."""

_OF_ONE = """
abs absolute all amax amin angle any arccos arccosh arcsin arcsinh arctan arctanh argmax argmin
argsort cbrt ceil celu conj conjugate copy cos cosh count_nonzero cumprod cumsum deg2rad elu erf
erfc erfinv exp exp2 expm1 fabs floor gelu glu hard_shrink hard_sigmoid hard_silu hard_swish
hard_tanh i0 imag isfinite isinf isnan isneginf isposinf isreal leaky_relu log log10 log1p log2
log_sigmoid log_softmax logical_not logsumexp max mean median min nan_to_num nanargmax nanargmin
nancumprod nancumsum nanmax nanmean nanmin nanprod nanstd nansum nanvar negative normalize ones_like
prod ptp rad2deg real reciprocal relu relu6 round rsqrt selu sigmoid sign signbit silu sin sinc sinh
soft_shrink softmax softplus softsign sort sparse_plus sparse_sigmoid sparsemax sqrt square
squareplus std stop_gradient sum swish tan tanh tanh_shrink trunc var zeros_like
"""
_ALONG_AN_AXIS = """
all amax amin any argmax argmin argsort count_nonzero cumprod cumsum glu log_softmax logsumexp max
mean median min nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmin nanprod nanstd nansum
nanvar normalize prod ptp softmax sort std sum var
"""
_OF_TWO = """
add arctan2 divide divide_no_nan equal floor_divide fmax fmin fmod greater greater_equal heaviside
hypot isclose less less_equal logaddexp logaddexp2 logical_and logical_or logical_xor maximum
minimum mod multiply nextafter not_equal power subtract true_divide
"""
_OF_TWO_INTEGERS = """
bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift left_shift right_shift
"""
_OF_INTEGERS = """
bitwise_invert bitwise_not
"""

OPERATIONS: dict[str, str] = {
    **{
        name: f"ops.{name}(vector{', axis = -1' if name in _ALONG_AN_AXIS.split() else ''})"
        for name in _OF_ONE.split()
    },
    **{name: f"ops.{name}(vector, 0.5 * vector)" for name in _OF_TWO.split()},
    **{name: f"ops.{name}(ids, ids)" for name in _OF_TWO_INTEGERS.split()},
    **{name: f"ops.{name}(ids)" for name in _OF_INTEGERS.split()},
    "allclose": "vector * ops.cast(ops.allclose(ops.ones([2]), ops.ones([2])), float32)",
    "append": "ops.append(vector, vector, axis = 1)",
    "arange": "vector + ops.arange(6.0)",
    "argpartition": "ops.argpartition(vector, 2)",
    "array": "vector + ops.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])",
    "array_split": "ops.array_split(vector, 2, axis = 1)",
    "average": "ops.average(vector, axis = 1)",
    "average_pool": "ops.average_pool(image, 2)",
    "batch_normalization": "ops.batch_normalization(vector, ops.zeros([6]), ops.ones([6]), -1)",
    "binary_crossentropy": "ops.binary_crossentropy(unit, unit)",
    "blackman": "vector * ops.blackman(6)",
    "broadcast_to": "vector + ops.broadcast_to(1.0, [6])",
    "cast": "ops.cast(ids, float32)",
    "categorical_crossentropy": "ops.categorical_crossentropy(unit, unit)",
    "cdist": "ops.cdist(steps, steps)",
    "cholesky": "ops.cholesky(square)",
    "cholesky_inverse": "ops.cholesky_inverse(square)",
    "clip": "ops.clip(vector, 0.0, 0.5)",
    "concatenate": "ops.concatenate([vector, vector], axis = -1)",
    "conv": "ops.conv(image, ops.ones([3, 3, 3, 2]))",
    "correlate": "vector + ops.correlate(ops.arange(3.0), ops.arange(3.0))",
    "cross": "ops.cross(vector[:, :3], vector[:, 3:])",
    "ctc_loss": "ops.ctc_loss(ids, steps, ids[:, 0], 4 + ids[:, 0])",
    "depth_to_space": "ops.depth_to_space(ops.concatenate([image, image, image, image], axis = -1), 2)",
    "depthwise_conv": "ops.depthwise_conv(image, ops.ones([3, 3, 3, 1]))",
    "det": "ops.det(square)",
    "diag": "vector + ops.diagonal(ops.diag(ops.arange(6.0)))",
    "diagflat": "vector + ops.diagonal(ops.diagflat(ops.arange(6.0)))",
    "diagonal": "ops.diagonal(steps, axis1 = 1, axis2 = 2)",
    "diff": "ops.diff(vector)",
    "dot": "ops.dot(steps, ops.ones([4, 2]))",
    "dot_product_attention": "ops.dot_product_attention(heads, heads, heads)",
    "dsplit": "ops.dsplit(steps, 2)",
    "dstack": "ops.dstack([steps, steps])",
    "eig": "ops.eig(square)",
    "eigh": "ops.eigh(square)",
    "einsum": 'ops.einsum("bij,bkj->bik", steps, steps)',
    "expand_dims": "ops.expand_dims(vector, -1)",
    "extract_sequences": "ops.extract_sequences(sound, 16, 8)",
    "eye": "ops.matmul(vector, ops.eye(6))",
    "fft": "ops.fft([vector, vector])",
    "fft2": "ops.fft2([steps, steps])",
    "flip": "ops.flip(vector, axis = 1)",
    "fliplr": "ops.fliplr(vector)",
    "flipud": "vector + ops.flipud(ops.arange(6.0))",
    "fold": "ops.fold(patches, [4, 4], [2, 2])",
    "full": "vector + ops.full([6], 0.5)",
    "full_like": "ops.full_like(vector, 0.5)",
    "geomspace": "vector + ops.geomspace(1.0, 2.0, 6)",
    "hamming": "vector * ops.hamming(6)",
    "hanning": "vector * ops.hanning(6)",
    "hsplit": "ops.hsplit(steps, 2)",
    "hstack": "ops.hstack([vector, vector])",
    "identity": "ops.matmul(vector, ops.identity(6))",
    "ifft2": "ops.ifft2([steps, steps])",
    "image.affine_transform": (
        "ops.image.affine_transform(image, ops.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0]))"
    ),
    "image.crop_images": "ops.image.crop_images(image, 1, 1, target_height = 4, target_width = 4)",
    "image.extract_patches": "ops.image.extract_patches(image, 4)",
    "image.extract_patches_3d": "ops.image.extract_patches_3d(volume, 2)",
    "image.gaussian_blur": "ops.image.gaussian_blur(image)",
    "image.hsv_to_rgb": "ops.image.hsv_to_rgb(image)",
    "image.map_coordinates": (
        "vector + ops.mean(ops.image.map_coordinates(ops.ones([4]), ops.array([[0.5, 1.5]]), 1))"
    ),
    "image.pad_images": "ops.image.pad_images(image, 1, 1, 1, 1)",
    "image.perspective_transform": (
        "ops.image.perspective_transform(image, ops.array([[0.0, 0.0], [0.0, 7.0], [7.0, 0.0], [7.0, 7.0]]),"
        " ops.array([[0.0, 1.0], [0.0, 7.0], [7.0, 0.0], [7.0, 6.0]]))"
    ),
    "image.resize": "ops.image.resize(image, [4, 4])",
    "image.rgb_to_grayscale": "ops.image.rgb_to_grayscale(image)",
    "image.rgb_to_hsv": "ops.image.rgb_to_hsv(image)",
    "image.sobel_edges": "ops.image.sobel_edges(image)",
    "image.ssim": "ops.image.ssim(image, image, filter_size = 3)",
    "in_top_k": "ops.in_top_k(ids[:, 0], vector, 2)",
    "inv": "ops.inv(square)",
    "irfft": "ops.irfft([vector, vector])",
    "istft": "ops.istft([real, imaginary], 16, 8, 16)",
    "kaiser": "vector * ops.kaiser(6, 2.0)",
    "layer_normalization": "ops.layer_normalization(vector)",
    "ldexp": "ops.ldexp(vector[:, :4], ids)",
    "linspace": "vector + ops.linspace(0.0, 1.0, 6)",
    "logdet": "ops.logdet(square)",
    "logspace": "vector + ops.logspace(0.0, 1.0, 6)",
    "lstsq": "vector + ops.mean(ops.lstsq(ops.eye(3), ops.ones([3, 1])))",
    "matmul": "ops.matmul(vector, ops.ones([6, 2]))",
    "matrix_rank": "ops.matrix_rank(square)",
    "max_pool": "ops.max_pool(image, 2)",
    "meshgrid": "ops.meshgrid(ops.arange(3.0), ops.arange(2.0))",
    "moments": "ops.moments(vector, axes = [1])",
    "moveaxis": "ops.moveaxis(steps, 1, 2)",
    "multi_hot": "ops.multi_hot(ids, 5)",
    "norm": "ops.norm(vector, axis = 1)",
    "one_hot": "ops.one_hot(ids, 5)",
    "ones": "vector + ops.ones([6])",
    "outer": "vector + ops.mean(ops.outer(ops.arange(2.0), ops.arange(2.0)))",
    "pad": "ops.pad(vector, [[0, 0], [1, 1]])",
    "percentile": "ops.percentile(vector, 50.0, axis = 1)",
    "pinv": "ops.pinv(square)",
    "polar": "ops.real(ops.polar(vector, vector))",
    "psnr": "vector + ops.psnr(ops.ones([2]), ops.zeros([2]), 1.0)",
    "qr": "ops.qr(square)",
    "quantile": "ops.quantile(vector, 0.5, axis = 1)",
    "ravel": "vector + ops.ravel(ops.ones([2, 3]))",
    "repeat": "ops.repeat(vector, 2, axis = 1)",
    "reshape": "ops.reshape(vector, [-1, 2, 3])",
    "rfft": "ops.rfft(sound)",
    "rms_normalization": "ops.rms_normalization(vector)",
    "roll": "ops.roll(vector, 1, axis = 1)",
    "rot90": "ops.rot90(image, axes = [1, 2])",
    "saturate_cast": 'ops.saturate_cast(100 * vector, "uint8")',
    "scatter": "vector + ops.scatter(ops.array([[1]]), ops.array([1.0]), [6])",
    "scatter_update": "vector + ops.scatter_update(ops.ones([6]), ops.array([[1]]), ops.array([1.0]))",
    "searchsorted": "ops.searchsorted(ops.array([0.2, 0.5]), label[:, 0])",
    "segment_max": "vector + ops.segment_max(ops.ones([6]), ops.array([0, 1, 2, 3, 4, 5]), 6)",
    "segment_min": "vector + ops.segment_min(ops.ones([6]), ops.array([0, 1, 2, 3, 4, 5]), 6)",
    "segment_prod": "vector + ops.segment_prod(ops.ones([6]), ops.array([0, 1, 2, 3, 4, 5]), 6)",
    "segment_sum": "vector + ops.segment_sum(ops.ones([6]), ops.array([0, 1, 2, 3, 4, 5]), 6)",
    "select": "ops.select([ops.greater(vector, 0.5)], [vector], 0.0)",
    "separable_conv": "ops.separable_conv(image, ops.ones([3, 3, 3, 1]), ops.ones([1, 1, 3, 2]))",
    "slice": "vector + ops.slice(ops.ones([8]), [1], [6])",
    "slice_update": "vector + ops.slice_update(ops.ones([6]), [1], ops.zeros([2]))",
    "solve": "ops.solve(square, square)",
    "solve_triangular": "ops.solve_triangular(square, square)",
    "space_to_depth": "ops.space_to_depth(image, 2)",
    "sparse_categorical_crossentropy": "ops.sparse_categorical_crossentropy(ids[:, 0], unit)",
    "split": "ops.split(vector, 2, axis = 1)",
    "squeeze": "ops.squeeze(label, 1)",
    "stack": "ops.stack([vector, vector], axis = 1)",
    "stft": "ops.stft(sound, 16, 8, 16)",
    "svd": "ops.svd(square, compute_uv = false)",
    "swapaxes": "ops.swapaxes(steps, 1, 2)",
    "take": "ops.take(vector, [0, 2], axis = 1)",
    "take_along_axis": "ops.take_along_axis(vector, ids, axis = 1)",
    "tensordot": "ops.tensordot(steps, ops.ones([4, 2]), axes = 1)",
    "threshold": "ops.threshold(vector, 0.5, 0.0)",
    "tile": "ops.tile(vector, [1, 2])",
    "top_k": "ops.top_k(vector, 2)",
    "trace": "ops.trace(steps, axis1 = 1, axis2 = 2)",
    "transpose": "ops.transpose(steps, [0, 2, 1])",
    "trapezoid": "ops.trapezoid(vector)",
    "tri": "ops.matmul(vector, ops.tri(6))",
    "tril": "ops.tril(steps)",
    "triu": "ops.triu(steps)",
    "unstack": "ops.unstack(vector, axis = 1)",
    "vander": "ops.matmul(vector, ops.vander(ops.arange(6.0)))",
    "vdot": "vector + ops.vdot(ops.ones([6]), ops.ones([6]))",
    "view": "ops.view(vector, int32)",
    "view_as_real": "ops.view_as_real(ops.polar(vector, vector))",
    "vsplit": "ops.vsplit(ops.ones([8, 6]), 2)",
    "vstack": "ops.mean(ops.vstack([ops.ones([6]), ops.ones([6])]), axis = 0) + vector",
    "where": "ops.where(ops.greater(vector, 0.5), vector, 0.0)",
    "zeros": "vector + ops.zeros([6])",
}

CONSTANT = ("meshgrid", "vsplit")
"""Functions that a spec can use of tensors without examples only."""

OUTPUTS: dict[str, int] = {
    "array_split": 2,
    "dsplit": 2,
    "eig": 2,
    "eigh": 2,
    "fft": 2,
    "fft2": 2,
    "hsplit": 2,
    "ifft2": 2,
    "meshgrid": 2,
    "moments": 2,
    "qr": 2,
    "rfft": 2,
    "split": 2,
    "stft": 2,
    "top_k": 2,
    "unstack": 6,
    "vsplit": 2,
}
"""How many tensors those functions give that give several."""
