"""Entries of the seeds' list of 57 that name no operator, with the reason. Asking for one gets the reason."""

NOT_OPERATORS = {
    "Tensor": "an ATen overload name (add.Tensor), or the class",
    "TensorScalar": "an ATen overload name (pow.Tensor_Scalar)",
    "Scalar": "an ATen overload name (add.Scalar)",
    "int": "an ATen overload name (transpose.int, softmax.int)",
    "dim": "an ATen overload name (mean.dim)",
    "SwinDropPath": "a module (stochastic depth): the identity in eval mode; its training form is dropout and mul",
    "ContrastiveHead": "a module of yolov8-world: batch norm, einsum, mul and add, each tested under its own name",
}
