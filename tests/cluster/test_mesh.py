import pytest

from evenflow.cluster.mesh import Mesh, MeshAxis
from evenflow.errors import InputError


def test_the_shape_is_that_of_the_axes() -> None:
    mesh = Mesh(axes=tuple(MeshAxis(size=size, bandwidth_bytes_per_s=1) for size in (2, 3)))
    assert (mesh.shape, mesh.num_devices) == ((2, 3), 6)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: MeshAxis(size=0, bandwidth_bytes_per_s=1), "size"),
        (lambda: MeshAxis(size=1, bandwidth_bytes_per_s=0), "bandwidth_bytes_per_s"),
        (lambda: MeshAxis(size=1, bandwidth_bytes_per_s=1, latency_ns=-1), "latency_ns"),
        (lambda: Mesh(axes=()), "axes"),
    ],
)
def test_meshes_that_make_no_sense(make: object, field: str) -> None:
    with pytest.raises(InputError, match=field):
        make()  # type: ignore[operator]
