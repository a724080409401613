import pytest

from evenflow.errors import InputError
from evenflow.profiles.init.init_planning import InitPlanning, planning_of, read_init_planning
from evenflow.profiles.yaml_file import load_yaml

MB = 2**20


def planning(text: str) -> InitPlanning:
    return planning_of(load_yaml(text, file="plan.yaml"))


def test_every_field(tmp_path):
    """A file of the newer tool, which has nothing but what to plan for."""
    (tmp_path / "plan.yaml").write_text(
        "pipeline_config: {pipeline_num: 4, num_layer: 32, micro_batch_num: 8, num_of_interleave: 2, "
        "vpp_less_memory: 1, optimization_level: 2, memory_limit: 60000, constant_memory: 1024, "
        "enable_simulation: 'no', sim_comm_time: 0.5, use_backward_time: false}\n"
    )
    read = read_init_planning(tmp_path / "plan.yaml")
    assert (read.has_measurements, read.num_layers, read.num_stages, read.num_microbatches) == (False, 32, 4, 8)
    assert (read.num_chunks, read.less_memory, read.optimization_level) == (2, True, 2)
    assert (read.memory_limit_bytes, read.constant_bytes, read.message_ns) == (60000 * MB, 1024 * MB, 500_000)
    assert (read.enable_simulation, read.use_backward_time) == (False, False)
    assert len(read.stated) == 9


def test_absent_fields_and_the_zeros_of_the_format_say_nothing():
    for text in ("{}", "{memory_limit: 0, constant_memory: 0, sim_comm_time: 0.0}"):
        read = planning(f"pipeline_config: {text}\nmemory_usage: {{}}\n")
        assert (read.memory_limit_bytes, read.constant_bytes, read.message_ns) == (None, None, None)
        assert (read.num_stages, read.num_chunks, read.less_memory, read.enable_simulation) == (None,) * 4
        assert read.has_measurements


@pytest.mark.parametrize(
    ("field", "part"),
    [
        ("micro_batch_num: 8.5", "pipeline_config.micro_batch_num must be an integer"),
        ("num_of_interleave: 0", "pipeline_config.num_of_interleave must be an integer from 1"),
        ("optimization_level: 3", "pipeline_config.optimization_level must be an integer from 0 to 2, got 3"),
        ("vpp_less_memory: perhaps", "pipeline_config.vpp_less_memory must be true or false, got 'perhaps'"),
        ("memory_limit: -1", "pipeline_config.memory_limit must be a number from 0 to 100,000,000 MB"),
        ("sim_comm_time: .nan", "pipeline_config.sim_comm_time must be a number from 0 to 100,000,000 ms"),
        ("memory_limits: 5", "pipeline_config.memory_limits is an unknown field; did you mean 'memory_limit'?"),
    ],
)
def test_wrong_fields_are_named(field, part):
    with pytest.raises(InputError) as refused:
        planning(f"pipeline_config:\n  {field}\n")
    assert "plan.yaml, line 2" in str(refused.value)
    assert part in str(refused.value)
