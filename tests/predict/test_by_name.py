from dataclasses import replace

import pytest

import evenflow
from evenflow.predict.prediction import predict
from tests.predict.trainings import DEVICE, TOPOLOGY, training


def test_a_device_by_its_name_or_its_rates():
    asked = training()
    by_value = evenflow.predict(asked, DEVICE)
    assert by_value.step_ns == predict(asked, TOPOLOGY).step_ns
    assert evenflow.predict(asked, "h100").step_ns < evenflow.predict(asked, "v100").step_ns


def test_a_node_has_as_many_devices_as_the_accelerator_unless_said():
    asked = training(degrees=evenflow.Degrees(tensor=2, pipeline=2, data=4), global_batch=64)
    assert evenflow.predict(asked, DEVICE).topology.domain_devices == DEVICE.link_devices
    apart = evenflow.predict(asked, DEVICE, devices_per_node=2)
    assert apart.topology.domain_devices == 2
    assert apart.step_ns > evenflow.predict(asked, DEVICE, devices_per_node=16).step_ns


def test_rates_follow_from_the_step():
    found = predict(training(), TOPOLOGY)
    slow = replace(found, step_ns=2 * found.step_ns)
    assert slow.tokens_per_device_s == pytest.approx(found.tokens_per_device_s / 2)
    assert slow.utilisation == pytest.approx(found.utilisation / 2)
    assert found.model_flops_per_device_s == pytest.approx(found.utilisation * 100e12)
    assert found.tokens_per_device_s == pytest.approx(16 * 2048 / 8 / (found.step_ns / 1e9))


def test_an_unknown_name_is_refused():
    with pytest.raises(evenflow.errors.InputError, match="did you mean 'h100'"):
        evenflow.predict(training(), "h10")
