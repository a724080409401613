"""What a stage is used for: its layers together, and those that are sharded otherwise."""

from evenflow.cluster import Submesh
from evenflow_torch.auto.wording.stage_use import stage_use
from tests_torch.auto.wording.made_layers import made_layer

MESH, SUBMESH = (2, 4), Submesh(2, 4)


def test_layers_alike_are_said_once():
    layer = made_layer("data", "tensor", zero="1")
    use = stage_use([("embed", 0, layer), ("0", 1, layer), ("1", 1, layer)], MESH, SUBMESH)
    assert use.words == "tensor parallel over 4 in the node, ZeRO-1 over 2 nodes"
    assert use.is_uniform


def test_the_first_module_of_another_kind_is_named():
    layers = [("embed", 0, made_layer("data", "data", zero="3"))]
    layers += [(str(layer), 1, made_layer("data", "tensor")) for layer in range(3)]
    use = stage_use(layers, MESH, SUBMESH)
    assert use.words == "tensor parallel over 4 in the node, data parallel over 2 nodes; embed: FSDP over 8"
    assert use.other_words == (("embed", "FSDP over 8"),)
    assert use.main_words == "tensor parallel over 4 in the node, data parallel over 2 nodes"
    assert not use.is_uniform


def test_axes_of_one_device_are_for_nothing():
    layers = [("embed", 0, made_layer("same", "data")), ("0", 1, made_layer("tensor", "data"))]
    use = stage_use(layers, (1, 8), Submesh(1, 8))
    assert (use.words, use.is_uniform) == ("data parallel over 8", True)
