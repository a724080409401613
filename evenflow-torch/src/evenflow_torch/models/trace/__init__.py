"""Traces modules on tensors without data into graphs of operators.

Read `operator_graph` first: the value that `auto` works on, free of torch. `capture` makes one from a
module, with `equal_layers` to trace a run of equal layers once and `joint_graph` to read torch's own graph;
`captured_layers` makes one for every kind of layer of a model. `dtensor_adapter` alone knows private names of torch.
"""
