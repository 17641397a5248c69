class _Flags:
    pass


cudnn = _Flags()
cudnn.is_available = lambda: True
cudnn.version = lambda: 91900
cuda = _Flags()
cuda.matmul = _Flags()
