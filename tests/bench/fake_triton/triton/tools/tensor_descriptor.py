class TensorDescriptor:
    def __init__(self, base, shape, strides, block_shape):
        assert shape[1] * shape[0] == base.numel() and strides == [shape[1], 1]
        self.base, self.shape, self.strides, self.block_shape = base, shape, strides, block_shape
